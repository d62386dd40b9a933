"""The exception of a part of the probe that is itself broken. Standard library only."""

from __future__ import annotations


class HarnessFault(BaseException):
    """A part of the probe is broken and must not go on: an oracle that raises, a function to replace that no longer exists.

    Not an Exception, so that the calling program does not catch it, and not an AttributeError, which a program that probes
    for attributes would take for its own. It is never a release's failure (`dsregress.probe.border.own_faults`).
    """

    says_where = True
