"""The code that runs inside a measured environment.

Python 3.10 syntax, the standard library and the packages of the stack itself; nothing of the rest of ``dsregress``,
because a dependency here would change what is measured.
"""
