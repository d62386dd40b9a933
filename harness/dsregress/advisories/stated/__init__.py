"""What files and launch lines state of a job: one module per source, each of which returns facts with their places."""
