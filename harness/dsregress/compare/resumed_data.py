"""Judges the data with which a program goes on from another run's files: of two releases that read the same files, one may
go on with those that the run which wrote them was fed next, and the other with some that it was fed before.

Data of every release may be other ones by intention, as where a script skips none: that is no fault of a release.
"""

from __future__ import annotations

from dsregress.compare.metrics import FED_DIFFERENCE, RESUMED_DATA
from dsregress.compare.result_pairs import Pair
from dsregress.messages import Message, message
from dsregress.model import Finding
from dsregress.probe.border.wire import ResumedData


def judge_resumed_data(pair: Pair) -> Finding | None:
    """Return the finding that one of the two does not go on with the data that are next, and the other does; None if they
    do not differ in that, or if it is not known."""
    if pair.base is None or pair.own.resumed is None or pair.base.resumed is None:
        return None
    own, base = pair.own.resumed, pair.base.resumed
    if _is_right(own) == _is_right(base):
        return None
    if _is_right(own):
        sentence = message(
            "goes on with the data that are next, which the baseline does not: {base}", base=_fed_instead(base)
        )
        return pair.finding(
            FED_DIFFERENCE, kind="changed", value=float(_steps_apart(base)), baseline_value=0.0, sentence=sentence
        )
    return pair.finding(
        RESUMED_DATA,
        kind="wrong",
        value=float(_steps_apart(own)),
        baseline_value=0.0,
        claim=RESUMED_DATA.wrong,
        sentence=_fed_instead(own),
    )


def _is_right(resumed: ResumedData) -> bool:
    return resumed.step == resumed.due


def _steps_apart(resumed: ResumedData) -> int:
    return abs(resumed.due - resumed.step)


def _fed_instead(resumed: ResumedData) -> Message:
    if resumed.step:
        return message("it is fed those of step {step}, not {due}", step=resumed.step, due=resumed.due)
    return message("it is fed others than those of step {due}", due=resumed.due)
