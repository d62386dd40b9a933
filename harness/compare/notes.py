"""What a reader should know that is no finding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from harness.compare.measured import Measured
from harness.compare.pairs import Pair
from harness.compare.wording import listing, plural, quantity

#: init and import are measured once per run, so only what no noise explains is told, and it is never a finding.
HUGE_RATIO, HUGE_S = 3.0, 5.0


def notes_on(
    pairs: Sequence[Pair], names: Mapping[str, str], installed: Mapping[str, Mapping[str, str]], superseded: int
) -> list[str]:
    """On pairs that were compared: confounders, slow starts, different bits, older results that were left out."""
    confounded: dict[str, dict[str, None]] = defaultdict(dict)
    seen: set[str] = set()
    starts: dict[str, list[str]] = defaultdict(list)
    bits: dict[str, int] = defaultdict(int)
    for pair in pairs:
        base, own = pair.base, pair.own
        if base is None or pair.is_baseline:
            continue
        if pair.stack not in seen:
            seen.add(pair.stack)
            confounded[pair.stack].update(dict.fromkeys(_also_different(pair, installed)))
        starts[pair.stack] += _slow_start(pair.workload, own, base)
        if own.digest and base.digest and own.digest != base.digest:
            bits[pair.stack] += 1
    notes = [
        f"{names[stack]} differs from the baseline in more than its pins: {listing(list(packages))}"
        for stack, packages in confounded.items()
        if packages
    ]
    notes += [
        f"{names[stack]}: {listing(lines, 2)} (one sample each: no finding)" for stack, lines in starts.items() if lines
    ]
    if bits:
        which = listing([f"{names[stack]} ({plural(count, 'workload')})" for stack, count in bits.items()])
        notes.append(f"trained parameters differ in their last bits from the baseline's in: {which}")
    if superseded:
        notes.append(f"{plural(superseded, 'older result')} of the same cells left out; the newest counts")
    return notes


def _also_different(pair: Pair, installed: Mapping[str, Mapping[str, str]]) -> list[str]:
    pinned = {_normal(name) for name in pair.result.cell.stack.versions}
    mine, base = installed.get(pair.stack), installed.get(pair.baseline.cell.stack.id) if pair.baseline else None
    if not mine or not base:
        return []
    old = {_normal(name): version for name, version in base.items()}
    new = {_normal(name): version for name, version in mine.items()}
    return [
        f"{name} {new.get(name, 'absent')} (baseline: {old.get(name, 'absent')})"
        for name in sorted({*old, *new} - pinned)
        if old.get(name) != new.get(name)
    ]


def _slow_start(workload: str, mine: Measured, base: Measured) -> list[str]:
    lines = []
    for word, own, other in (("init", mine.init_s, base.init_s), ("import", mine.import_s, base.import_s)):
        if own is not None and other is not None and own > HUGE_RATIO * other and own - other > HUGE_S:
            lines.append(f"{word} took {quantity(own, 's')} against {quantity(other, 's')} in {workload}")
    return lines


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")
