"""Advice: does a job fit, what does each remedy buy, which release to pin, which code holds the memory."""
