"""What runs inside a measured environment.

Python 3.10 syntax, the standard library and what the stack itself holds; nothing of the rest of ``harness``, because a
dependency here would change what is measured.
"""
