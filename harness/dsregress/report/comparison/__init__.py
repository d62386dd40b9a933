"""Reports of a comparison, one file per text format."""
