"""Runs cells: selects them, decides where and how long they run, and stores their results."""
