"""The joint that runs cells: which cells, where, how long, and what is stored."""
