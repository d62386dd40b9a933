"""Facts that files and launch lines state: one module per source, each of which returns facts with their places."""
