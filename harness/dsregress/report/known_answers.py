"""Stored answers of `reproduce` and `bisect`, and the tables written by hand in the same folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dsregress.probe.factors import BY_NAME
from dsregress.report import stored_answers
from dsregress.report.stored_answers import FurtherRuns, StoredAnswers, StoredCondition, StoredReproduction
from dsregress.reproduce.patterns import ProblemPattern
from dsregress.store import contents, files_beside
from dsregress.store.contents import ProblemHandler, silent, why_unread

_T = TypeVar("_T")

#: Tables in the folder of reproducers: the titles of scripts by their names, the scripts' results in further releases, and
#: problems that no script shows.
TITLES, FURTHER_RUNS, WITHOUT_SCRIPT = "titles.toml", "runs.toml", "without_script.toml"


class TriedChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change upstream that, as a test with a script showed, introduced what the script shows, or ended it."""

    before: str  #: the last release before the change
    after: str  #: the first one with it
    subject: str  #: of its commit, with the number of its pull request
    tried: str  #: what was run, and what it showed
    files: tuple[str, ...] = ()  #: ``+2 -1 FILE``


class Title(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The title of a script, by the person who published it."""

    title: str
    what: str = ""  #: a sentence, if the title does not say it all
    shown_by: ProblemPattern | None = None  #: further findings that it shows, such as those of another package
    shown_with: dict[
        str, tuple[Any, ...]
    ] = {}  #: factor -> values that show it in a script run by hand, but are undetermined in the answer
    changes: tuple[TriedChange, ...] = ()  #: that introduced what it shows, or ended it
    is_intended: bool = False  #: True if the newer release is the one that does what is configured


class WithoutScript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A problem that no script shows, and why."""

    problem: str
    reason: str
    by_hand: str = ""  #: the file below ``by_hand/`` that confirms it nevertheless
    shown_by: ProblemPattern | None = None  #: the findings by which it is recognized, if any


class KnownAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers and tables to join with problems."""

    stored: StoredAnswers = StoredAnswers()
    titles: dict[str, Title] = {}  #: by the name of the script
    without_script: tuple[WithoutScript, ...] = ()


NOTHING_KNOWN = KnownAnswers()


def known_answers(results: str, reproducers: str, problem: ProblemHandler = silent) -> KnownAnswers:
    """Return the answers in a folder of results and in one of reproducers. Files that cannot be read are reported to
    ``problem``."""
    stored = stored_answers.read_answers(
        (*files_beside(results, problem), *files_beside(reproducers, problem)), problem
    )
    titles = _table(Path(reproducers) / TITLES, dict[str, Title], problem)
    further = _table(Path(reproducers) / FURTHER_RUNS, dict[str, tuple[FurtherRuns, ...]], problem)
    without = _table(Path(reproducers) / WITHOUT_SCRIPT, dict[str, tuple[WithoutScript, ...]], problem)
    known = [_with_what_is_known_by_hand(one, titles.get(one.name), further) for one in stored.reproductions]
    stored = msgspec.structs.replace(stored, reproductions=tuple(known))
    return KnownAnswers(stored=stored, titles=titles, without_script=without.get("problem", ()))


def _with_what_is_known_by_hand(
    answer: StoredReproduction, title: Title | None, further: Mapping[str, tuple[FurtherRuns, ...]]
) -> StoredReproduction:
    """Return an answer with the script's runs in further releases, and with the values that show the fault by its title."""
    shown_with = title.shown_with if title is not None else {}

    def settled(of: Sequence[StoredCondition]) -> tuple[StoredCondition, ...]:
        return tuple(_settled(one, shown_with.get(one.factor, ())) for one in of)

    return msgspec.structs.replace(
        answer,
        further=further.get(answer.name, ()),
        needs=settled(answer.needs),
        indifferent=settled(answer.indifferent),
        not_known=settled(answer.not_known),
    )


def _settled(condition: StoredCondition, shown: Sequence[object]) -> StoredCondition:
    """Return a condition with these values among those that show the fault."""
    values = BY_NAME[condition.factor].values if shown else ()
    return msgspec.structs.replace(
        condition,
        shown=tuple(sorted({*condition.shown, *shown}, key=values.index)) if shown else condition.shown,
        unknown=tuple(one for one in condition.unknown if one not in shown),
    )


def _table(file: Path, kind: type[dict[str, _T]], problem: ProblemHandler) -> dict[str, _T]:
    """Return the content of a TOML file; empty if it does not exist, or cannot be read."""
    if not file.exists():
        return {}
    try:
        return msgspec.toml.decode(contents.read_bytes(str(file)), type=kind)
    except OSError as error:
        problem(str(file), why_unread(error))
    except ValueError as error:  # of the text and of msgspec
        problem(str(file), f"damaged: {error}")
    return {}
