"""What a part of the probe raises that is broken itself. Standard library only."""

from __future__ import annotations


class HarnessFault(BaseException):
    """A part of the probe is broken and must not go on: an oracle that raises, a function to replace that is gone.

    Not an Exception, so that a program in whose call it is raised does not catch it, and not an AttributeError, which one
    that probes for attributes would take for its own. It is never a release's failure (`harness.probe.border.own_faults`).
    """

    says_where = True
