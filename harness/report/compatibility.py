"""Which release trains which workload: one word for each pair. Pure.

The matrix of a sweep over many releases and workloads, and what of it a person can read: how many workloads of each
release come to which word, and for each workload that is not sound everywhere, in which releases it is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from harness.compare import Comparison
from harness.compare.history import ranges
from harness.compare.outcomes import stage
from harness.compare.wording import listing
from harness.model import Failed, Outcome, OutOfMemory, Passed, Skipped, TimedOut

#: Every word, from the soundest to what says least about the release.
PASSED, WORSE, WRONG, CRASHED = "passed", "worse", "wrong", "crashed"
OUT_OF_MEMORY, HUNG = "out of memory", "hung"
NO_IMPORT, NO_INSTALL, NOT_RUN = "does not import", "does not install", "not run"
WORDS = (PASSED, WORSE, WRONG, CRASHED, OUT_OF_MEMORY, HUNG, NO_IMPORT, NO_INSTALL, NOT_RUN)

_PASSED, _NOT_SELECTED = Passed(), Skipped("not selected")

#: Workloads that are named in one line.
_MOST_NAMED = 4


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """Releases by workloads."""

    stacks: tuple[str, ...]  #: ids in version order
    workloads: tuple[str, ...]
    words: dict[str, tuple[str, ...]]  #: stack id -> a word of `WORDS` for each workload, in their order
    signatures: dict[tuple[str, str], str]  #: (stack id, workload) -> how it failed, where it did


def matrix(comparison: Comparison) -> Matrix:
    """The matrix of a comparison. ``worse`` is a relevant finding against the baseline, ``wrong`` one of an oracle."""
    found: dict[tuple[str, str], set[str]] = {}
    for group in comparison.groups:
        for finding in (group.headline, *group.related):
            if finding.relevant:
                workload = finding.workload
                found.setdefault((finding.stack, workload), set()).add(finding.kind)
    workloads = tuple(comparison.cells.workloads)
    words: dict[str, list[str]] = {stack.id: [] for stack in comparison.stacks}
    signatures = {}
    for workload in workloads:
        ran, ended = set(comparison.cells.stacks_of(workload)), comparison.ended.get(workload, {})
        for stack, column in words.items():
            outcome = ended.get(stack, _PASSED) if stack in ran else _NOT_SELECTED
            column.append(_word(outcome, found.get((stack, workload), set())))
            if isinstance(outcome, Failed):
                signatures[stack, workload] = outcome.signature
    return Matrix(
        stacks=tuple(words),
        workloads=workloads,
        words={stack: tuple(column) for stack, column in words.items()},
        signatures=signatures,
    )


def _word(outcome: Outcome, kinds: set[str]) -> str:
    match outcome:
        case Passed():
            return WRONG if "wrong" in kinds else WORSE if "regression" in kinds else PASSED
        case OutOfMemory():
            return OUT_OF_MEMORY
        case TimedOut():
            return HUNG
        case Failed():
            return {"install": NO_INSTALL, "import": NO_IMPORT, "harness": NOT_RUN}.get(stage(outcome), CRASHED)
        case Skipped():
            return NOT_RUN


def counts(seen: Matrix, names: Mapping[str, str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings, and a row for each stack: how many workloads come to which word. Words that nobody comes to are left
    out."""
    used = [word for word in WORDS if any(word in column for column in seen.words.values())]
    rows = []
    for stack in seen.stacks:
        number = Counter(seen.words[stack])
        rows.append((names[stack], *(f"{number[word]:,}" if number[word] else "" for word in used)))
    return ("stack", *used), rows


def patterns(seen: Matrix, comparison: Comparison) -> list[str]:
    """First the releases that fare alike on every workload and pass none; then a line for each way in which workloads
    fare on the others, but for those that pass on all: which word where, and how it crashed. The widest first."""
    lost: dict[tuple[str, str], list[str]] = {}
    for stack in seen.stacks:
        whole = {
            (word, seen.signatures.get((stack, w), ""))
            for word, w in zip(seen.words[stack], seen.workloads, strict=True)
        }
        if len(whole) == 1 and not whole & {(PASSED, ""), (NOT_RUN, "")}:
            lost.setdefault(whole.pop(), []).append(stack)
    lines = [f"every workload: {_told(word, end, stacks, comparison)}" for (word, end), stacks in lost.items()]
    others = [stack for stack in seen.stacks if not any(stack in stacks for stacks in lost.values())]
    alike: dict[tuple[tuple[tuple[str, str], tuple[str, ...]], ...], list[str]] = {}
    for at, workload in enumerate(seen.workloads):
        apart: dict[tuple[str, str], list[str]] = {}
        for stack in others:
            apart.setdefault((seen.words[stack][at], seen.signatures.get((stack, workload), "")), []).append(stack)
        if {word for word, _ in apart} - {PASSED, NOT_RUN}:
            alike.setdefault(tuple((way, tuple(stacks)) for way, stacks in apart.items()), []).append(workload)
    for ways, workloads in sorted(alike.items(), key=lambda one: -len(one[1])):
        fares = "; ".join(_told(word, end, stacks, comparison) for (word, end), stacks in ways)
        lines.append(f"{listing(workloads, _MOST_NAMED)}: {fares}")
    return lines


def _told(word: str, end: str, stacks: Sequence[str], comparison: Comparison) -> str:
    """``crashed in 0.16.4 to 0.16.8 (AssertionError)``."""
    where = ranges(stacks, comparison.stacks, comparison.names)
    return f"{word} in {where} ({end})" if end else f"{word} in {where}"
