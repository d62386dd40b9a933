"""Follows up a fault that tells two releases apart: finds the release in which it began or ended, and writes a script that
shows it without the harness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dsregress.bisect.halving import next_probe, sought
from dsregress.bisect.questions import Question
from dsregress.compare.comparison import DetailOf
from dsregress.model import Stack, Verdict
from dsregress.probe.scenario import Scenario
from dsregress.reproduce import cells
from dsregress.reproduce.cells import ReleasePair
from dsregress.reproduce.reproduction import Scripted, ScriptSubject
from dsregress.run.session import Session

#: The name of a script in its own first lines.
_FILE = "reproduce.py"


class ReleaseDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that one release shows and another does not."""

    question: Question
    stack: Stack  #: that shows it
    other: Stack
    parameters: dict[str, Any]  #: of the smallest cell
    published: Sequence[Stack]  #: the two and all releases between them, in version order
    package: str  #: in which they differ


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The releases between which a fault begins or ends, as far as they were measured."""

    before: Stack  #: the last that is as the older end
    after: Stack  #: the first that is as the newer end
    is_exact: bool  #: no release is between them


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a script that should show a fault with the released packages alone."""

    is_confirmed: bool
    script: str  #: empty where none can be written
    why_not: str = ""


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a fault that were found before the budget ended."""

    change: Change | None = None
    confirmation: Confirmation | None = None


def change_of(
    found: ReleaseDifference, simplest: Scenario, session: Session, detail_of: DetailOf, is_over: Callable[[], bool]
) -> Change:
    """Return the releases between which the fault began or ended. Start no measurement once ``is_over``. Raise the errors of
    a session."""

    def shows(release: Stack) -> Verdict:
        pair = ReleasePair(found.question, release, found.other, session, simplest, detail_of)
        return pair.shows([found.parameters])[0]

    return changed_in(found.published, found.stack, shows, is_over)


def confirmation_of(found: ReleaseDifference, simplest: Scenario, session: Session) -> Confirmation:
    """Run a script of the released packages alone and return its result. Raise the errors of a session."""
    subject = ScriptSubject(
        question=found.question, bad=found.stack, good=found.other, package=found.package, file=_FILE
    )
    scripted = Scripted(subject, simplest, session)
    cell = cells.cell_of(simplest, found.stack, found.parameters)
    tried = scripted.confirmed(cell.parameters)  # with the model's shape
    text = tried.script.text if tried.script is not None else ""
    return Confirmation(is_confirmed=tried.is_confirmed, script=text, why_not=tried.why_not)


def changed_in(
    releases: Sequence[Stack], bad: Stack, shows: Callable[[Stack], Verdict], is_over: Callable[[], bool]
) -> Change:
    """Halve the releases between the ends, of which ``bad`` is one, until neighbours differ or time is over."""
    last = len(releases) - 1
    to = Verdict.BAD if releases[last].id == bad.id else Verdict.GOOD
    answers = {0: Verdict.GOOD if to is Verdict.BAD else Verdict.BAD, last: to}
    while not is_over() and (at := next_probe(len(releases), answers, to)) is not None:
        answers[at] = shows(releases[at])
    found = sought(len(releases), answers, to)
    assert found is not None, "the ends differ"
    return Change(before=releases[found.before], after=releases[found.after], is_exact=found.is_exact)
