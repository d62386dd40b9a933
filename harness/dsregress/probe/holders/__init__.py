"""Attributes each byte to the place in the code that holds it."""
