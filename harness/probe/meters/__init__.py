"""What is counted while a step runs."""
