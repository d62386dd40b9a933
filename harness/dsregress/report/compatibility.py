"""Compatibility of releases and workloads: one word for each pair. Pure.

The matrix of a sweep over many releases and workloads, and its summaries: how many workloads of each release have each
word, and for each workload that does not pass everywhere, in which releases it does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from dsregress.compare.outcomes import stage_of
from dsregress.compare.release_ranges import ranges
from dsregress.model import Failed, MachineFault, Outcome, OutOfMemory, Passed, Skipped, TimedOut
from dsregress.report.context import ReportContext
from dsregress.wording.quantities import listing

#: Every word, from the soundest to the least informative about the release.
PASSED, WORSE, WRONG, CRASHED = "passed", "worse", "wrong", "crashed"
OUT_OF_MEMORY, HUNG = "out of memory", "hung"
NO_IMPORT, NO_INSTALL, NOT_RUN = "does not import", "does not install", "not run"
WORDS = (PASSED, WORSE, WRONG, CRASHED, OUT_OF_MEMORY, HUNG, NO_IMPORT, NO_INSTALL, NOT_RUN)

#: The word that a finding gives a cell that passed. An oracle outweighs the baseline.
_FOUND = {"regression": WORSE, "wrong": WRONG}

#: Workloads that are named in one line.
_MOST_NAMED = 4


class CompatibilityMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """Releases by workloads."""

    stacks: tuple[str, ...]  #: ids in version order
    workloads: tuple[str, ...]
    words: dict[str, tuple[str, ...]]  #: stack id -> a word of `WORDS` for each workload, in their order
    signatures: dict[tuple[str, str], str]  #: (stack id, workload) -> the signature of its failure, if it failed


def matrix(context: ReportContext) -> CompatibilityMatrix:
    """Return the matrix of a comparison. ``worse``: a relevant finding against the baseline; ``wrong``: one of an oracle."""
    workloads = tuple(context.comparison.cells.workloads)
    column = {workload: at for at, workload in enumerate(workloads)}
    words = {stack.id: [NOT_RUN] * len(workloads) for stack in context.comparison.stacks}
    for workload, at in column.items():
        for stack in context.comparison.cells.stacks_of(workload):
            words[stack][at] = PASSED
    signatures = {}
    for workload, outcomes in context.comparison.ended.items():
        for stack, outcome in outcomes.items():
            words[stack][column[workload]] = _word(outcome)
            if isinstance(outcome, Failed):
                signatures[stack, workload] = outcome.signature
    for group in context.comparison.groups:
        for finding in (group.headline, *group.related):
            if finding.relevant and finding.kind in _FOUND:
                row, at = words[finding.stack], column[finding.workload]
                if row[at] in (PASSED, WORSE):
                    row[at] = _FOUND[finding.kind]
    return CompatibilityMatrix(
        stacks=tuple(words),
        workloads=workloads,
        words={stack: tuple(row) for stack, row in words.items()},
        signatures=signatures,
    )


def _word(outcome: Outcome) -> str:
    match outcome:
        case Passed():
            return PASSED
        case OutOfMemory():
            return OUT_OF_MEMORY
        case TimedOut():
            return HUNG
        case Failed():
            return {"install": NO_INSTALL, "import": NO_IMPORT, "harness": NOT_RUN}.get(stage_of(outcome), CRASHED)
        case Skipped() | MachineFault():
            return NOT_RUN


def counts(matrix: CompatibilityMatrix, names: Mapping[str, str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return headings, and a row for each stack with the number of its workloads that have each word. Unused words are left
    out."""
    used = [word for word in WORDS if any(word in column for column in matrix.words.values())]
    rows = []
    for stack in matrix.stacks:
        number = Counter(matrix.words[stack])
        rows.append((names[stack], *(f"{number[word]:,}" if number[word] else "" for word in used)))
    return ("stack", *used), rows


def patterns(matrix: CompatibilityMatrix, context: ReportContext) -> list[str]:
    """Return lines: first the releases that pass no workload and fare the same on all; then, for the other releases, one
    line for each pattern of words over the releases, with the crashes. Patterns of the most workloads come first;
    workloads that pass everywhere are left out."""
    fates = {
        stack: [(word, matrix.signatures.get((stack, w), "")) for word, w in zip(words, matrix.workloads, strict=True)]
        for stack, words in matrix.words.items()
    }
    lost: dict[tuple[str, str], list[str]] = {}
    for stack, fate in fates.items():
        whole = set(fate)
        if len(whole) == 1 and not whole & {(PASSED, ""), (NOT_RUN, "")}:
            lost.setdefault(whole.pop(), []).append(stack)
    lines = [f"every workload: {_where(word, end, stacks, context)}" for (word, end), stacks in lost.items()]
    others = [stack for stack in matrix.stacks if not any(stack in stacks for stacks in lost.values())]
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for workload, fares in zip(matrix.workloads, zip(*(fates[stack] for stack in others), strict=True), strict=False):
        alike.setdefault(fares, []).append(workload)
    for fares, workloads in sorted(alike.items(), key=lambda item: -len(item[1])):
        apart: dict[tuple[str, str], list[str]] = {}
        for stack, way in zip(others, fares, strict=True):
            apart.setdefault(way, []).append(stack)
        if {word for word, _ in apart} - {PASSED, NOT_RUN}:
            ways = "; ".join(_where(word, end, stacks, context) for (word, end), stacks in apart.items())
            lines.append(f"{listing(workloads, _MOST_NAMED)}: {ways}")
    return lines


def _where(word: str, end: str, stacks: Sequence[str], context: ReportContext) -> str:
    """Return ``crashed in 0.16.4 to 0.16.8 (AssertionError)``."""
    where = ranges(stacks, context.comparison.stacks, context.comparison.names)
    return f"{word} in {where} ({end})" if end else f"{word} in {where}"
