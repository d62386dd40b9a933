"""The code that the host and a measured process share. Standard library only."""
