"""Counts memory, operators, communication and warnings while a step runs."""
