"""Configurations that no scenario lists: tried in two releases, judged, and reduced to what each fault needs."""
