"""The exception of a part of the probe that is itself broken. Standard library only."""

from __future__ import annotations

from vgpu.fault import BrokenPart


class HarnessFault(BrokenPart):
    """A part of the probe is broken and must not go on, such as an oracle that raises. It is never a release's failure
    (`dsregress.probe.border.own_faults`)."""
