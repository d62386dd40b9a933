"""What becomes of a fault that tells two releases apart: the release in which it began or ended, and a script that shows it
without the harness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from harness.bisect.halving import next_probe, sought
from harness.bisect.questions import DetailOf, Question
from harness.model import Stack, Verdict
from harness.probe.scenario import Scenario
from harness.reproduce.cells import ReleasePair
from harness.reproduce.reproduction import Scripted
from harness.run.session import Session

#: What a script is called in its own first lines.
_FILE = "reproduce.py"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Where a fault begins or ends, as far as releases were measured."""

    before: Stack  #: the last that is as the older end
    after: Stack  #: the first that is as the newer end
    is_exact: bool  #: no release is between them


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a script shows a fault with the released packages alone."""

    is_confirmed: bool
    script: str  #: empty where none can be written
    why_not: str = ""


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """What was learnt about a fault before the budget ended."""

    change: Change | None = None
    confirmation: Confirmation | None = None


def follow(
    question: Question,
    stack: Stack,
    other: Stack,
    parameters: dict[str, Any],
    releases: Sequence[Stack],
    package: str,
    simplest: Scenario,
    session: Session,
    detail_of: DetailOf,
    is_over: Callable[[], bool],
) -> Followed:
    """``stack`` shows it and ``other`` does not; they are the ends of ``releases``, in version order. Nothing is begun once
    ``is_over``. Raises as a session does."""
    if is_over():
        return Followed()

    def shows(release: Stack) -> Verdict:
        pair = ReleasePair(question, release, other, session, simplest, detail_of)
        return pair.shows([parameters])[0]

    change = changed_in(releases, stack, shows, is_over)
    if is_over():
        return Followed(change=change)
    scripted = Scripted(question, stack, other, package, _FILE, simplest, session)
    script, runs, why_not = scripted.confirmed(parameters)
    confirmed = [run.answer for run in runs[:2]] == [Verdict.BAD, Verdict.GOOD]
    text = script.text if script is not None else ""
    return Followed(change=change, confirmation=Confirmation(is_confirmed=confirmed, script=text, why_not=why_not))


def changed_in(
    releases: Sequence[Stack], bad: Stack, shows: Callable[[Stack], Verdict], is_over: Callable[[], bool]
) -> Change:
    """Halves the releases between the ends, of which ``bad`` is one, until neighbours differ or it is over."""
    last = len(releases) - 1
    to = Verdict.BAD if releases[last].id == bad.id else Verdict.GOOD
    answers = {0: Verdict.GOOD if to is Verdict.BAD else Verdict.BAD, last: to}
    while not is_over() and (at := next_probe(len(releases), answers, to)) is not None:
        answers[at] = shows(releases[at])
    found = sought(len(releases), answers, to)
    assert found is not None, "the ends differ"
    return Change(before=releases[found.before], after=releases[found.after], is_exact=found.is_exact)
