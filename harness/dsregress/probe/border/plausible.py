"""Checks that the figures of a record are possible, beyond their types: code that computes with them must not fail on a
flipped bit.

A record is read from a file that others wrote. Integers are unbounded in Python and in JSON, and a size of 10**60 or a
negative time would surface far from the file that holds it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from operator import attrgetter

from dsregress.probe.border.wire import RankRecord, RunRecord
from vgpu.figures import PhaseReading

#: Larger than any count, size in bytes, number of operations or time in seconds.
MOST = 10**24

#: Deepest nesting of free text and free values.
MOST_LEVELS = 100

#: Every figure of a phase that it has in any case.
_COUNTS = attrgetter(*(field.name for field in dataclasses.fields(PhaseReading) if field.type in ("int", "float")))

#: A collective and the ranks of its group, as `PhaseReading.groups` has them: what reads it makes a list of the ranks.
_GROUP = re.compile(r"\w+ (?:\d{1,6}-\d{1,6}(?:/-?[1-9]\d{0,5})?|\d{1,6}(?:,\d{1,6})*)")

_READ = attrgetter("allocated_bytes", "allocated_peak_bytes", "reserved_bytes", "reserved_peak_bytes")


def why_implausible(record: RunRecord) -> str:
    """Return which figure is impossible, in a few words; empty if all are possible."""
    if not _all_possible((record.import_s, record.world_size, record.discarded_rounds, *record.round_s)):
        return "a time or a count of the run is negative or too large"
    for cost in record.costs:
        if not _all_possible((cost.processor_s, cost.page_faults, cost.waits, cost.preemptions)):
            return "a cost of a round is negative or too large"
    for clocks in record.clocks:
        if not _all_possible((clocks.sm_mhz, clocks.memory_mhz)):
            return "a clock is negative or too large"
    for rank in record.ranks:
        if why := _of_rank(rank):
            return f"{why} in rank {rank.rank}" if _all_possible((rank.rank,)) else "a rank's number is impossible"
    return ""


def _of_rank(rank: RankRecord) -> str:
    if not _all_possible((rank.rank, rank.init_s)):
        return "a number is negative or too large"
    for name, reading in rank.phases.items():
        counts = _COUNTS(reading)
        if min(counts) < 0 or max(counts) > MOST:
            return f"a figure of phase {name[:40]!r} is negative or too large"
        for optional in (reading.reserved_peak_bytes, reading.late_reserved_peak_bytes, reading.smallest_card_bytes):
            if optional is not None and not 0 <= optional <= MOST:
                return f"a figure of phase {name[:40]!r} is negative or too large"
        if not all(map(_GROUP.fullmatch, reading.groups)):
            return f"a group of ranks of phase {name[:40]!r} is none"
        if not _all_possible(reading.attention.values()):
            return f"a count of attention's calls of phase {name[:40]!r} is impossible"
        for counted in (*reading.collectives.values(), *reading.groups.values()):
            if len(counted) != 2 or not _all_possible(counted):
                return f"the collectives of phase {name[:40]!r} are no counts and sizes"
    for taken in rank.readings:
        if not _all_possible((taken.step, taken.late_reserved_bytes or 0, *_READ(taken))):
            return f"a figure that the program read at {taken.at[:40]!r} is negative or too large"
    for terms in rank.ideal.values():
        if not all(-MOST <= term <= MOST for term in terms.values()):
            return "a term of the ideal is too large"
    return ""


def _all_possible(numbers: Iterable[float]) -> bool:
    return all(0 <= number <= MOST for number in numbers)  # and not where one is NaN


def nests_too_deep(value: object) -> bool:
    """Return True if a value nests deeper than `MOST_LEVELS`: recursion over it could overflow the stack."""
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
