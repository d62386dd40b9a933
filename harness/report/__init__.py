"""One view of the findings; one file per format."""
