"""Writes quantities, stacks and commands for a reader."""
