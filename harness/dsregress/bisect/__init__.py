"""The machinery of ``bisect``: lists of versions, testers that put a question to them, and the search."""
