"""A version regression test harness for the LLM training stack."""

__version__ = "0.1.0"
