"""Notes: facts a reader should know besides the findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from dsregress.compare.result_pairs import Pair
from dsregress.compare.result_summary import ResultSummary
from dsregress.model import Stack
from dsregress.wording.quantities import left_text, listing, plural, quantity

#: init and import are measured once per run: only what no noise explains is reported, and as a note, not a finding.
HUGE_RATIO, HUGE_S = 3.0, 5.0


class Remarks(msgspec.Struct, frozen=True):
    """The facts from which the notes are written, by stack, in the order of the pairs."""

    compared: dict[str, None] = {}  #: stacks other than the baseline
    starts: dict[str, list[str]] = {}  #: slow ones, a line each
    bits: dict[str, int] = {}  #: workloads whose trained parameters are not bit-identical to the baseline's
    left: dict[str, list[str]] = {}  #: processes that runs left running, a line each
    noted: dict[str, list[str]] = {}  #: a note of their ranks -> the workloads
    #: oracle and the reason why it did not judge -> workload -> the stacks
    not_judged: dict[tuple[str, str], dict[str, list[str]]] = {}
    cards: dict[str, dict[str, list[str]]] = {}  #: that simulated runs name -> workload -> the stacks


def remarks_on(pairs: Sequence[Pair], comparable: Sequence[Pair]) -> Remarks:
    """Return the remarks on all pairs (processes left running, notes of ranks, cells not judged by an oracle) and on
    ``comparable`` pairs alone (slow starts, different bits)."""
    remarks = Remarks({}, {}, {}, {}, {}, {}, {})
    for pair in pairs:
        if pair.result.left:
            remarks.left.setdefault(pair.stack, []).append(f"{pair.workload} {left_text(pair.result.left)}")
        for note in pair.own.notes:
            if pair.workload not in (known := remarks.noted.setdefault(note, [])):
                known.append(pair.workload)
        cell = pair.result.cell
        if cell.device == "sim" and (card := cell.parameters.get("gpu")):
            remarks.cards.setdefault(str(card), {}).setdefault(pair.workload, []).append(pair.stack)
        for missing in pair.own.not_judged:
            remarks.not_judged.setdefault(missing, {}).setdefault(pair.workload, []).append(pair.stack)
    for pair in comparable:
        base, own = pair.base, pair.own
        if base is None or pair.is_baseline:
            continue
        remarks.compared[pair.stack] = None
        if lines := _slow_start(pair.workload, own, base):
            remarks.starts.setdefault(pair.stack, []).extend(lines)
        if own.digest and base.digest and own.digest != base.digest:
            remarks.bits[pair.stack] = remarks.bits.get(pair.stack, 0) + 1
    return remarks


def merge_remarks(all_remarks: Iterable[Remarks]) -> Remarks:
    """Merge the remarks of all workloads."""
    whole = Remarks({}, {}, {}, {}, {}, {}, {})
    for remarks in all_remarks:
        whole.compared.update(remarks.compared)
        for stack, lines in remarks.starts.items():
            whole.starts.setdefault(stack, []).extend(lines)
        for stack, count in remarks.bits.items():
            whole.bits[stack] = whole.bits.get(stack, 0) + count
        for stack, lines in remarks.left.items():
            whole.left.setdefault(stack, []).extend(lines)
        for note, workloads in remarks.noted.items():
            whole.noted.setdefault(note, []).extend(workloads)
        for missing, by_workload in remarks.not_judged.items():
            whole.not_judged.setdefault(missing, {}).update(by_workload)
        for card, by_workload in remarks.cards.items():
            whole.cards.setdefault(card, {}).update(by_workload)
    return whole


def comparison_notes(
    remarks: Remarks,
    baseline: str,
    stacks: Mapping[str, Stack],
    names: Mapping[str, str],
    installed: Mapping[str, Mapping[str, str]],
    superseded: int,
) -> list[str]:
    """Return the notes: those of ranks, confounders, slow starts, different bits, processes left running, and older
    results."""
    confounded = {stack: _also_different(stacks[stack], baseline, installed) for stack in remarks.compared}
    notes = [f"{note} (in {listing(workloads, 2)})" for note, workloads in remarks.noted.items()]
    notes += [
        f"{names[stack]} differs from the baseline in more than its pins: {listing(packages)}"
        for stack, packages in confounded.items()
        if packages
    ]
    notes += [
        f"{names[stack]}: {listing(lines, 2)} (one sample each, so not a finding)"
        for stack, lines in remarks.starts.items()
    ]
    if remarks.bits:
        which = listing([f"{names[stack]} ({plural(count, 'workload')})" for stack, count in remarks.bits.items()])
        notes.append(f"trained parameters are not bit-identical to the baseline's in: {which}")
    notes += [f"{names[stack]}: {listing(lines, 2)}" for stack, lines in remarks.left.items()]
    if superseded:
        notes.append(f"{plural(superseded, 'older result')} of the same cells left out; only the newest counts")
    return notes


def _also_different(stack: Stack, baseline: str, installed: Mapping[str, Mapping[str, str]]) -> list[str]:
    pinned = {_normal(name) for name in stack.versions}
    mine, base = installed.get(stack.id), installed.get(baseline)
    if not mine or not base:
        return []
    old = {_normal(name): version for name, version in base.items()}
    new = {_normal(name): version for name, version in mine.items()}
    return [
        f"{name} {new.get(name, 'absent')} (baseline: {old.get(name, 'absent')})"
        for name in sorted({*old, *new} - pinned)
        if old.get(name) != new.get(name)
    ]


def _slow_start(workload: str, mine: ResultSummary, base: ResultSummary) -> list[str]:
    lines = []
    for word, own, other in (("init", mine.init_s, base.init_s), ("import", mine.import_s, base.import_s)):
        if own is not None and other is not None and own > HUGE_RATIO * other and own - other > HUGE_S:
            lines.append(f"{word} took {quantity(own, 's')} against {quantity(other, 's')} in {workload}")
    return lines


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")
