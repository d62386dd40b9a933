"""The executor for a Ray cluster."""
