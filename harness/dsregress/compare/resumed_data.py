"""Judges the data with which a program goes on from another run's files: of the releases that read the same files, one may
go on with those that the run which wrote them was fed next, and another with some that it was fed before.

Data of every release may be other ones by intention, as where a script skips none: that is no fault of a release.
"""

from __future__ import annotations

from dsregress.compare.metrics import RESUMED_DATA
from dsregress.compare.result_pairs import Pair
from dsregress.messages import Message, message
from dsregress.model import Finding
from dsregress.probe.border.wire import ResumedData


def judge_resumed_data(pair: Pair) -> list[Finding]:
    """Return the finding that a run, the baseline's as well, does not go on with the data that are next, although another
    release does."""
    own = pair.own.resumed
    if own is None or own.is_right or not pair.can_resume:
        return []
    base = None if pair.base is None else pair.base.resumed
    return [
        pair.finding(
            RESUMED_DATA,
            kind="wrong",
            value=float(own.steps_apart),
            baseline_value=None if base is None or pair.is_baseline else float(base.steps_apart),
            claim=RESUMED_DATA.wrong,
            sentence=_fed_instead(own),
        )
    ]


def resume_apart(pair: Pair) -> bool:
    """Return True if one of the two goes on with the data that are next, and the other does not: nothing that comes out can
    be compared."""
    base = None if pair.base is None else pair.base.resumed
    return pair.own.resumed is not None and base is not None and pair.own.resumed.is_right != base.is_right


def _fed_instead(resumed: ResumedData) -> Message:
    if resumed.step:
        return message("it is fed those of step {step}, not {due}", step=resumed.step, due=resumed.due)
    return message("it is fed others than those of step {due}", due=resumed.due)
