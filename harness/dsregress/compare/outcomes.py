"""Cells that did not pass: a failure is always reported, whatever the baseline did."""

from __future__ import annotations

import re

from dsregress.compare.metrics import OUTCOME
from dsregress.compare.result_pairs import Pair, why_not
from dsregress.messages import message
from dsregress.model import (
    Failed,
    Finding,
    MachineFault,
    Outcome,
    OutOfMemory,
    Passed,
    Signature,
    TimedOut,
    is_measurement,
    read_signature,
)
from dsregress.probe.border.detail_lines import is_added
from dsregress.probe.border.faults import DETAIL_LENGTH
from dsregress.wording.names import outcome_text, outcome_words
from dsregress.wording.quantities import shortened

#: The beginning of the signature of a cell whose ranks were silent; as a rule they wait for one another.
HUNG = "no sign of life for"

#: The end of what is said of a program that needs a launcher with its line.
NO_RANK = "asks for its rank, and no launcher gives it one"

#: Numbers that are the model's or the batch's, and not the fault's: shapes, what stands after a word for a size or before a
#: unit, and all of four digits and more. Not 0, which says that a tensor is empty, and not a dimension, an argument or a
#: code.
_SIZE = re.compile(
    r"(?<=[\[(])(?!0[\])])-?\d+(?:(?: ?x ?|, ?| and )-?\d+)*(?=,?[\])])"
    r"|(?:(?<=\bsize )|(?<=\bsize of )|(?<=\blength )|(?<=\bnumel ))[1-9]\d*\b(?!\.\d)"
    r"|(?<![\w.])(?!0 )\d+(?:\.\d+)?(?= ?(?:[KMGT]i?B|bytes?|elements?|tokens?|parameters?)\b)"
    r"|(?<![\w.#])\d{4,}(?![\w]|\.\d)"
)


def judge_outcome(pair: Pair) -> Finding | None:
    """Return the finding for a cell that failed, or that passes where the baseline fails."""
    base = pair.baseline
    passed = isinstance(pair.result.outcome, Passed)
    base_passed = base is not None and isinstance(base.outcome, Passed)
    if passed and (base is None or base_passed or not _broke(base.outcome) or why_not(pair)):
        return None
    own, text = pair.result.outcome, outcome_words(pair.result.outcome)
    theirs = outcome_words(base.outcome) if base is not None else ""
    if passed:
        kind, relevant, sentence = "improvement", True, message("passes; the baseline {outcome}", outcome=theirs)
    elif pair.is_baseline:
        kind, relevant, sentence = "failed", False, message("the baseline itself: {outcome}", outcome=text)
    elif base is None or not _broke(base.outcome):
        kind, relevant = "failed", not _stalled(own)
        if base_passed:
            sentence = message("{outcome}; the baseline passed", outcome=text)
        else:
            sentence = message("{outcome}; the baseline has no result for it", outcome=text)
    elif _is_same_fault(own, base.outcome):
        kind, relevant, sentence = "failed", False, message("{outcome}, as the baseline does", outcome=text)
    else:
        kind, relevant = "failed", False
        sentence = message("{outcome}; the baseline fails as well: {baseline}", outcome=text, baseline=theirs)
    return pair.finding(
        metric=OUTCOME.name,
        phase=stage_of(own) if not passed else stage_of(base.outcome) if base else "",
        kind=kind,
        value=outcome_text(own),
        baseline_value=outcome_text(base.outcome) if base is not None else None,
        ratio=None,
        unit="",
        significant=True,
        relevant=relevant,
        sentence=sentence,
        outcome=own,
        evidence=_evidence(own),
    )


def _stalled(outcome: Outcome) -> bool:
    """Return True if it was silent before the program had begun, as on a machine that is too busy to import."""
    return isinstance(outcome, TimedOut) and outcome.stage == "import"


def asks_for_a_rank(outcome: Outcome | None) -> bool:
    """Return True if a program ended as it asks for a rank that its launch line gives it none of."""
    return isinstance(outcome, Failed) and NO_RANK in read_signature(outcome.signature).message


def fails_once_measured(pair: Pair) -> bool:
    """Return True if the baseline's program fails once everything is measured, as in its last save, and this one does the
    same or passes: its figures are as good as those of a pass."""
    base = pair.baseline
    if base is None or not isinstance(base.outcome, Failed) or pair.base is None or not pair.base.exact:
        return False
    own = pair.result.outcome
    return isinstance(own, Passed) or (
        isinstance(own, Failed) and bool(pair.own.exact) and _is_same_fault(own, base.outcome)
    )


def is_out_of_memory(found: Finding) -> bool:
    """Return True if a finding says that a cell ran out of memory."""
    return isinstance(found.outcome, OutOfMemory)


def stage_of(outcome: Outcome) -> str:
    """Return the stage in which a cell ended; empty if it passed or was skipped."""
    match outcome:
        case Failed(stage=where) | TimedOut(stage=where) | OutOfMemory(phase=where) | MachineFault(stage=where):
            return where
    return ""


def signature_text(outcome: Outcome) -> str:
    """Return one short line that is the same for the same fault; empty if the cell passed or was skipped."""
    match outcome:
        case Failed(signature=text) | MachineFault(signature=text):
            return text
        case OutOfMemory():
            return "out of memory"
        case TimedOut(limit_s=limit_s, working=working):
            return f"not done after {limit_s:g} s of work" if working else f"{HUNG} {limit_s:g} s"
    return ""


def signature_of(outcome: Outcome) -> Signature | None:
    """Return the message and the place of a failure; None for every other outcome."""
    return read_signature(outcome.signature) if isinstance(outcome, Failed | MachineFault) else None


def fault_of(outcome: Outcome) -> str:
    """Return the part of a signature that failures of one fault share: without sizes, place, and how long was waited."""
    if isinstance(outcome, TimedOut):
        return "busy" if outcome.working else HUNG
    signature = signature_of(outcome)
    return without_sizes(signature.message if signature is not None else signature_text(outcome))


def without_sizes(message: str) -> str:
    """Return the message of an error with ``N`` for each size in it."""
    return _SIZE.sub("N", message)


def telling_part(outcome: Outcome, most: int) -> str:
    """Return a part of a signature that all failures of the fault have: its beginning, or the longest part between its
    sizes."""
    if isinstance(outcome, TimedOut):
        return fault_of(outcome)[:most] if not outcome.working else signature_text(outcome)[:most]
    signature = signature_of(outcome)
    text = signature.message if signature is not None else signature_text(outcome)
    return max((part.strip(" ()[]")[:most] for part in _SIZE.split(text)), key=len)


def _is_same_fault(one: Outcome, other: Outcome) -> bool:
    return (stage_of(one), fault_of(one)) == (stage_of(other), fault_of(other))


def _broke(outcome: Outcome) -> bool:
    """Return True if the stack ended the run, not the harness or the machine."""
    return is_measurement(outcome) and not isinstance(outcome, Passed)


def _evidence(outcome: Outcome) -> tuple[str, ...]:
    if isinstance(outcome, (Failed, OutOfMemory)):
        lines = [line for line in outcome.detail.splitlines() if line.strip() and not line.startswith("hint: ")]
        lines = [line for line in lines if not is_added(line)]
        if lines:  # uv ends with a hint that fits every failure
            return (f"last line: {shortened(lines[-1], DETAIL_LENGTH)}",)
    if isinstance(outcome, TimedOut):
        return outcome.whereabouts
    return ()
