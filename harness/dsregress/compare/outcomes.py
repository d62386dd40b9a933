"""Cells that did not pass: a failure is always reported, whatever the baseline did."""

from __future__ import annotations

import re

from dsregress.compare.metrics import OUTCOME
from dsregress.compare.pairs import Pair, why_not
from dsregress.model import Failed, Finding, MachineFault, Outcome, OutOfMemory, Passed, TimedOut, is_measurement
from dsregress.probe.border.faults import DETAIL_LENGTH
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import shortened

#: The beginning of `outcome_text` for `OutOfMemory`, and its signature.
_OUT_OF_MEMORY = "out of memory"

#: The beginning of the signature of a cell whose ranks were silent; as a rule they wait for one another.
HUNG = "no sign of life for"

#: The place at the end of a signature (`dsregress.probe.border.faults.signature_of`): it moves from release to release.
_PLACE = re.compile(r" \([^()]*:[^()]*\)$")

#: Numbers that are the model's or the batch's, and not the fault's: shapes, what stands after a word for a size or before a
#: unit, and all of four digits and more. Not 0, which says that a tensor is empty, and not a dimension, an argument or a
#: code.
_SIZE = re.compile(
    r"(?<=[\[(])(?!0[\])])-?\d+(?:(?: ?x ?|, ?| and )-?\d+)*(?=,?[\])])"
    r"|(?:(?<=\bsize )|(?<=\bsize of )|(?<=\blength )|(?<=\bnumel ))[1-9]\d*\b(?!\.\d)"
    r"|(?<![\w.])(?!0 )\d+(?:\.\d+)?(?= ?(?:[KMGT]i?B|bytes?|elements?|tokens?|parameters?)\b)"
    r"|(?<![\w.#])\d{4,}(?![\w]|\.\d)"
    rf"|(?<=\b{HUNG} )[\d.]+(?= s\b)"  # how long it was waited for
)


def judge_outcome(pair: Pair) -> Finding | None:
    """Return the finding for a cell that failed, or that passes where the baseline fails."""
    base = pair.baseline
    passed = isinstance(pair.result.outcome, Passed)
    base_passed = base is not None and isinstance(base.outcome, Passed)
    if passed and (base is None or base_passed or not _broke(base.outcome) or why_not(pair)):
        return None
    own, text = pair.result.outcome, outcome_text(pair.result.outcome)
    theirs = outcome_text(base.outcome) if base is not None else None
    if passed:
        kind, relevant, message = "improvement", True, f"passes; the baseline {theirs}"
    elif pair.is_baseline:
        kind, relevant, message = "failed", False, f"the baseline itself: {text}"
    elif base is None or not _broke(base.outcome):
        beside = "passed" if base_passed else "has no result for it"
        kind, relevant, message = "failed", True, f"{text}; the baseline {beside}"
    elif (stage(own), fault(signature(own))) == (stage(base.outcome), fault(signature(base.outcome))):
        kind, relevant, message = "failed", False, f"{text}, as the baseline does"
    else:
        kind, relevant, message = "failed", False, f"{text}; the baseline fails as well: {theirs}"
    return pair.finding(
        metric=OUTCOME.name,
        phase=stage(own) if not passed else stage(base.outcome) if base else "",
        kind=kind,
        value=text,
        baseline_value=theirs,
        ratio=None,
        unit="",
        significant=True,
        relevant=relevant,
        message=message,
        evidence=_evidence(own),
    )


def is_out_of_memory(found: Finding) -> bool:
    """Return True if a finding says that a cell ran out of memory."""
    return found.metric == OUTCOME.name and str(found.value).startswith(_OUT_OF_MEMORY)


def stage(outcome: Outcome) -> str:
    """Return the stage in which a cell ended; empty if it passed or was skipped."""
    match outcome:
        case Failed(stage=where) | TimedOut(stage=where) | OutOfMemory(phase=where) | MachineFault(stage=where):
            return where
    return ""


def signature(outcome: Outcome) -> str:
    """Return one short line that is the same for the same fault; empty if the cell passed or was skipped."""
    match outcome:
        case Failed(signature=text) | MachineFault(signature=text):
            return text
        case OutOfMemory():
            return _OUT_OF_MEMORY
        case TimedOut(limit_s=limit_s, working=working):
            return f"not done after {limit_s:g} s of work" if working else f"{HUNG} {limit_s:g} s"
    return ""


def fault(text: str) -> str:
    """Return the part of a signature (or of a text that ends with one) that failures of one fault share: without sizes or
    place."""
    return _SIZE.sub("N", _PLACE.sub("", text))


def telling(text: str, most: int) -> str:
    """Return a part of a signature without sizes, so that all failures of the fault have it: its beginning, or the longest
    part between its sizes."""
    return max((part.strip(" ()[]")[:most] for part in _SIZE.split(_PLACE.sub("", text))), key=len)


def _broke(outcome: Outcome) -> bool:
    """Return True if the stack ended the run, not the harness or the machine."""
    return is_measurement(outcome) and not isinstance(outcome, Passed)


def _evidence(outcome: Outcome) -> tuple[str, ...]:
    if isinstance(outcome, (Failed, OutOfMemory)):
        lines = [line for line in outcome.detail.splitlines() if line.strip() and not line.startswith("hint: ")]
        if lines:  # uv ends with a hint that fits every failure
            return (f"last line: {shortened(lines[-1], DETAIL_LENGTH)}",)
    if isinstance(outcome, TimedOut):
        return outcome.whereabouts
    return ()
