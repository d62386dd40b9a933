"""Turns a finding into a script that shows it with the released packages alone, and into the conditions that it needs."""
