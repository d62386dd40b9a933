"""The joint behind ``bisect``: lists of versions, askers that put a question to them, and the search to its end."""
