"""The memory oracle: what ZeRO says a rank must hold, against what the release holds. It needs no baseline.

Judged is what *stays* on the device after init, backward and step, when nothing is in use any more: there ZeRO leaves
no room for opinion. Peaks, and what is held between forward and backward, also depend on what autograd saves; they are
measured against the ideal in the same way, and told, not judged (see ``docs/memory-oracle.md``).
"""

from __future__ import annotations

from harness.compare.excess import METRIC, Excess
from harness.compare.pairs import Pair
from harness.config.thresholds import Thresholds
from harness.model import Finding
from harness.wording.quantities import quantity


def judge(pair: Pair, thresholds: Thresholds) -> list[Finding]:
    """A finding for each phase that leaves more behind than rounding and bookkeeping explain.

    The margin is that of every memory finding: its floor in bytes, and its share, here of the ideal. Sound releases
    were seen at 0.01 % beyond the ideal or below it; what it must find is several times the margin.
    """
    return [
        _finding(pair, excess)
        for excess in pair.own.excesses
        if excess.size >= thresholds.memory_bytes and excess.size >= thresholds.memory_share * excess.ideal
    ]


def _finding(pair: Pair, excess: Excess) -> Finding:
    held, ideal, size = (quantity(value, "bytes") for value in (excess.held, excess.ideal, excess.size))
    return pair.finding(
        metric=METRIC,
        phase=excess.phase,
        kind="wrong",
        value=excess.size,
        baseline_value=_of_baseline(pair, excess.phase),
        ratio=None,
        unit="bytes",
        significant=True,
        relevant=True,
        message=f"{excess.phase} holds {size} more after it ends than ZeRO needs: {held}, needed at most {ideal}, "
        f"rank {excess.rank}",
        rank=excess.rank,
        evidence=("needed: " + ", ".join(f"{name} {quantity(b, 'bytes')}" for name, b in excess.terms if b),),
    )


def _of_baseline(pair: Pair, phase: str) -> int | None:
    if pair.base is None or pair.is_baseline:
        return None
    return next((excess.size for excess in pair.base.excesses if excess.phase == phase), None)
