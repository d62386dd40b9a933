"""Configurations that nobody listed: tried in two releases, judged, and reduced to what each fault needs."""
