"""Diagnosis of a pasted crash: its content, and the stored failures that match it."""
