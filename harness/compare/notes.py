"""What a reader should know that is no finding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from harness.compare.metrics import init_s
from harness.compare.pairs import Pair
from harness.compare.wording import listing, plural, quantity
from harness.model import Result
from harness.probe.wire import RunRecord

#: init and import are measured once per run, so only what no noise explains is told, and it is never a finding.
HUGE_RATIO, HUGE_S = 3.0, 5.0


def notes_on(pairs: Sequence[Pair], names: Mapping[str, str], superseded: int) -> list[str]:
    """On pairs that were compared: confounders, slow starts, different bits, older results that were left out."""
    confounded: dict[str, dict[str, None]] = defaultdict(dict)
    seen: set[str] = set()
    starts: dict[str, list[str]] = defaultdict(list)
    bits: dict[str, int] = defaultdict(int)
    for pair in pairs:
        base = pair.baseline
        if base is None or base is pair.result or base.record is None or pair.result.record is None:
            continue
        if pair.stack not in seen:
            seen.add(pair.stack)
            confounded[pair.stack].update(dict.fromkeys(_also_different(pair.result, base)))
        starts[pair.stack] += _slow_start(pair, pair.result.record, base.record)
        digests = _digest(pair.result.record), _digest(base.record)
        if all(digests) and digests[0] != digests[1]:
            bits[pair.stack] += 1
    notes = [
        f"{names[stack]} differs from the baseline in more than its pins: {listing(list(packages))}"
        for stack, packages in confounded.items()
        if packages
    ]
    notes += [f"{names[stack]}: {listing(lines, 2)} (one sample each: no finding)" for stack, lines in starts.items() if lines]
    if bits:
        which = listing([f"{names[stack]} ({plural(count, 'workload')})" for stack, count in bits.items()])
        notes.append(f"trained parameters differ in their last bits from the baseline's in: {which}")
    if superseded:
        notes.append(f"{plural(superseded, 'older result')} of the same cells left out; the newest counts")
    return notes


def _also_different(mine: Result, base: Result) -> list[str]:
    pinned = {_normal(name) for name in (*mine.cell.stack.versions, *base.cell.stack.versions)}
    old = {_normal(name): version for name, version in base.installed.items()}
    new = {_normal(name): version for name, version in mine.installed.items()}
    return [
        f"{name} {new.get(name, 'absent')} (baseline: {old.get(name, 'absent')})"
        for name in sorted({*old, *new} - pinned)
        if old.get(name) != new.get(name)
    ]


def _slow_start(pair: Pair, mine: RunRecord, base: RunRecord) -> list[str]:
    lines = []
    for word, own, other in (("init", init_s(mine), init_s(base)), ("import", mine.import_s, base.import_s)):
        if own is not None and other is not None and own > HUGE_RATIO * other and own - other > HUGE_S:
            lines.append(f"{word} took {quantity(own, 's')} against {quantity(other, 's')} in {pair.workload}")
    return lines


def _digest(record: RunRecord) -> str:
    return next((r.numerics.parameter_digest for r in record.ranks if r.numerics is not None), "")


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")
