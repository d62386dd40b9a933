"""Answers of `reproduce` and `bisect` that are stored, and tables written by hand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.report.answers import stored as answers
from harness.report.answers.stored import FurtherRuns, StoredAnswers, StoredCondition, StoredReproduction
from harness.reproduce.factors import BY_NAME
from harness.reproduce.patterns import ProblemPattern
from harness.store import contents, files_beside
from harness.store.contents import ProblemHandler, silent, why_unread

_T = TypeVar("_T")

#: Tables in the folder of reproducers: the titles of scripts by their names, what these showed in further releases, and
#: problems that no script shows.
TITLES, FURTHER_RUNS, WITHOUT_SCRIPT = "titles.toml", "runs.toml", "without_script.toml"


class TriedChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change upstream of which it was tried, with a script, that it brings what the script shows, or ends it."""

    before: str  #: the last release before the change
    after: str  #: the first one with it
    subject: str  #: of its commit, with the number of its pull request
    tried: str  #: what was run, and what it showed
    files: tuple[str, ...] = ()  #: ``+2 -1 FILE``


class Title(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a script is about, by the person who published it."""

    title: str
    what: str = ""  #: a sentence, where the title does not say it all
    shown_by: ProblemPattern | None = None  #: further findings that it shows, as of another package than the releases'
    shown_with: dict[
        str, tuple[Any, ...]
    ] = {}  #: factor -> values of which a script by hand showed it, and the answer cannot say
    changes: tuple[TriedChange, ...] = ()  #: that bring what it shows, or end it
    is_intended: bool = False  #: whether the newer release is the one that does what is configured


class WithoutScript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A problem that no script shows, and why."""

    problem: str
    reason: str
    by_hand: str = ""  #: the file below ``by_hand/`` that confirms it all the same
    shown_by: ProblemPattern | None = None  #: the findings that it is known by, where it has any


class KnownAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """What problems are joined with."""

    stored: StoredAnswers = StoredAnswers()
    titles: dict[str, Title] = {}  #: by the name of the script
    without_script: tuple[WithoutScript, ...] = ()


NOTHING_KNOWN = KnownAnswers()


def known_answers(results: str, reproducers: str, problem: ProblemHandler = silent) -> KnownAnswers:
    """Those in a folder of results and in one of reproducers. What cannot be read is given to ``problem``."""
    stored = answers.read((*files_beside(results, problem), *files_beside(reproducers, problem)), problem)
    titles = _table(Path(reproducers) / TITLES, dict[str, Title], problem)
    further = _table(Path(reproducers) / FURTHER_RUNS, dict[str, tuple[FurtherRuns, ...]], problem)
    without = _table(Path(reproducers) / WITHOUT_SCRIPT, dict[str, tuple[WithoutScript, ...]], problem)
    known = [_with_what_is_known_by_hand(one, titles.get(one.name), further) for one in stored.reproductions]
    stored = msgspec.structs.replace(stored, reproductions=tuple(known))
    return KnownAnswers(stored=stored, titles=titles, without_script=without.get("problem", ()))


def _with_what_is_known_by_hand(
    answer: StoredReproduction, title: Title | None, further: Mapping[str, tuple[FurtherRuns, ...]]
) -> StoredReproduction:
    """An answer with the script's runs in further releases, and with the values that its title says show the fault."""
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


def _settled(condition: StoredCondition, shown: Sequence[Any]) -> StoredCondition:
    """With these values among those that show the fault."""
    values = BY_NAME[condition.factor].values if shown else ()
    return msgspec.structs.replace(
        condition,
        shown=tuple(sorted({*condition.shown, *shown}, key=values.index)) if shown else condition.shown,
        unknown=tuple(one for one in condition.unknown if one not in shown),
    )


def _table(file: Path, kind: type[dict[str, _T]], problem: ProblemHandler) -> dict[str, _T]:
    """What a file of TOML holds; nothing where there is none, or it cannot be read."""
    if not file.exists():
        return {}
    try:
        return msgspec.toml.decode(contents.read(str(file)), type=kind)
    except OSError as error:
        problem(str(file), why_unread(error))
    except ValueError as error:  # of the text and of msgspec
        problem(str(file), f"damaged: {error}")
    return {}
