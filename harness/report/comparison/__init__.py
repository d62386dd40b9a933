"""A comparison in every text format, one file per format."""
