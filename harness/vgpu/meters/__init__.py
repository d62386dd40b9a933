"""Counts what operators do and what tensors hold."""
