"""Reports: one view of the findings, and one file per format."""
