"""The exception of a part of this package that is itself broken. Standard library only."""

from __future__ import annotations


class BrokenPart(BaseException):
    """A part of the virtual GPU is broken and must not go on: a function that it replaces no longer exists.

    Not an Exception, so that the calling program does not catch it, and not an AttributeError, which a program that probes
    for attributes would take for its own.
    """

    says_where = True
