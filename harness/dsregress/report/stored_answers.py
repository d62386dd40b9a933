"""Stored answers of `reproduce` and `bisect`, as their ``--json`` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from dsregress.bisect import questions
from dsregress.bisect.questions import Question
from dsregress.model import Verdict, WorkloadParts, split_workload, variant_values
from dsregress.probe.factor import among
from dsregress.probe.factors import BY_NAME
from dsregress.probe.scenario import variant_id
from dsregress.store.contents import ProblemHandler, silent
from dsregress.system.decoding import Damaged, decoded

#: Of the files of `bisect`. History: 1 first.
BISECTION_SCHEMA = 1

#: Of the files of `reproduce`. History: 1 first; 2 ``not_known``, whose factors are no longer among ``indifferent``,
#: ``exit_code`` null where a script did not end or run, ``machine``, and ``trials`` in place of ``cells_measured``;
#: 3 ``upstream``.
REPRODUCTION_SCHEMA = 3


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a script in one release."""

    version: str
    answer: Verdict
    exit_code: int | None
    line: str


class StoredRemedy(StoredRun, frozen=True, kw_only=True):
    """A setting with which the script does not show the fault."""

    text: str


class FurtherRuns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a script that was run by hand, the same in several releases."""

    releases: tuple[str, ...]
    exit_code: int
    line: str

    @property
    def answer(self) -> Verdict:
        """Return BAD if the script failed, else GOOD."""
        return Verdict.BAD if self.exit_code else Verdict.GOOD


class StoredCondition(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one factor on a finding: values that show it, that hide it, and that are undetermined."""

    factor: str
    shown: tuple[Any, ...]
    hidden: tuple[Any, ...]
    unknown: tuple[Any, ...] = ()


class StoredRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of stored results for one release."""

    version: str
    answer: Verdict
    text: str


class StoredReproduction(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of `reproduce`."""

    schema: int
    cell: str
    metric: str
    package: str
    bad: str
    good: str
    confirmed: bool
    why_not: str
    smallest_cell: str
    needs: tuple[StoredCondition, ...]
    indifferent: tuple[StoredCondition, ...]
    runs: tuple[StoredRun, ...]
    remedies: tuple[StoredRemedy, ...]
    not_known: tuple[StoredCondition, ...] = ()  #: before schema 2, its factors are among the others
    releases: tuple[StoredRelease, ...] = ()  #: of the stored results, oldest first
    trials: int = 0  #: cells whose results were examined; schema 1 has ``cells_measured``
    script: str | None
    name: str = ""  #: of its file, without the ending
    further: tuple[FurtherRuns, ...] = ()  #: in other releases, which the file does not have

    @property
    def question(self) -> Question:
        """Return the question that the metric names. Raise UsageError if the metric no longer exists."""
        return questions.parse_question(self.metric)

    @property
    def workload(self) -> WorkloadParts:
        return _workload_of(self.cell)

    @property
    def smallest(self) -> WorkloadParts:
        """Return the workload of the smallest cell."""
        return _workload_of(self.smallest_cell)

    def setting_of(self, remedy: StoredRemedy) -> tuple[str, object] | None:
        """Return the factor and the value that a remedy sets, found by its words; None if no condition has it."""
        return next(
            ((one.factor, value) for one in self.needs for value in one.hidden if _words(one, (value,)) == remedy.text),
            None,
        )

    @property
    def answers(self) -> dict[str, Verdict]:
        """Return the script's answer in each release that it was run in, also by hand."""
        by_hand = {release: one.answer for one in self.further for release in one.releases}
        return {**{run.version: run.answer for run in self.runs}, **by_hand}

    @property
    def needed(self) -> tuple[str, ...]:
        """Return the conditions in words, one for each factor."""
        return tuple(_words(one, one.shown, one.hidden) for one in self.needs)

    @property
    def seen_with(self) -> tuple[str, ...]:
        """Return, in words, the values of the smallest cell that are not known to be needed."""
        unsure = [one for one in self.not_known if not one.hidden and one.factor in BY_NAME]
        return tuple(_words(one, one.shown) for one in unsure if not among(BY_NAME[one.factor].values[0], one.shown))

    @property
    def does_not_matter(self) -> tuple[str, ...]:
        """Return the factors, in words, of which every tried value shows the finding."""
        return tuple(BY_NAME[one.factor].noun for one in self.indifferent if one.factor in BY_NAME and not one.unknown)

    @property
    def reduced_to(self) -> tuple[str, ...]:
        """Return, in words, the values of the smallest cell that are not the simplest: without any of them the finding was
        not seen."""
        return reduced_words(self.smallest.variant)

    @property
    def open(self) -> tuple[str, ...]:
        """Return the undetermined values, in words."""
        left = {one.factor: one for one in (*self.needs, *self.indifferent, *self.not_known) if one.unknown}
        return tuple(_words(one, one.unknown) for one in left.values())


class StoredProbe(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a search."""

    name: str
    about: str = ""


class StoredTransition(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the answer, between two versions by their names."""

    before: str
    after: str
    to: Verdict
    exact: bool


class StoredSearch(msgspec.Struct, frozen=True, kw_only=True):
    """One list of releases or commits, searched."""

    kind: str
    package: str
    metric: str
    probes: tuple[StoredProbe, ...]
    changes: tuple[StoredTransition, ...]
    to: Verdict
    files: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    patch: tuple[str, ...] = ()

    @property
    def found(self) -> StoredTransition | None:
        """Return the change that was sought; None unless its exact version is known."""
        return next((change for change in self.changes if change.to is self.to and change.exact), None)

    def about(self, name: str) -> str:
        """Return the description of a tested version; empty if it has none."""
        return next((probe.about for probe in self.probes if probe.name == name), "")


class StoredBisection(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of `bisect`."""

    schema: int
    workload: str
    courses: tuple[StoredSearch, ...]


class StoredAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """All answers that were read."""

    reproductions: tuple[StoredReproduction, ...] = ()
    bisections: tuple[StoredBisection, ...] = ()


class _Kind(msgspec.Struct, frozen=True):
    """The fields that distinguish the two kinds of answers from each other, and from any other JSON."""

    schema: int = 0
    smallest_cell: str = ""
    courses: tuple[msgspec.Raw, ...] = ()


_kind_decoder = msgspec.json.Decoder(_Kind)
_reproduction_decoder = msgspec.json.Decoder(StoredReproduction)
_bisection_decoder = msgspec.json.Decoder(StoredBisection)


def read_answers(files: Iterable[tuple[str, bytes]], problem: ProblemHandler = silent) -> StoredAnswers:
    """Return the answers among these files: ``(path, content)``. Other files are skipped. Answers that are damaged, or
    written by a newer version, are reported to ``problem``."""
    reproductions: list[StoredReproduction] = []
    bisections: list[StoredBisection] = []
    for path, content in files:
        try:
            kind = decoded(_kind_decoder, content)
        except Damaged:
            continue  # no JSON object of ours
        try:
            if kind.smallest_cell and _is_known(kind, REPRODUCTION_SCHEMA, path, problem):
                found = decoded(_reproduction_decoder, content)
                reproductions.append(_current(found, PurePath(path).stem))
            elif kind.courses and _is_known(kind, BISECTION_SCHEMA, path, problem):
                bisections.append(decoded(_bisection_decoder, content))
        except Damaged as error:
            problem(path, f"damaged: {error}")
    return StoredAnswers(reproductions=tuple(reproductions), bisections=tuple(bisections))


def _is_known(kind: _Kind, newest: int, path: str, problem: ProblemHandler) -> bool:
    if kind.schema > newest:
        problem(path, f"written by a newer version (schema {kind.schema}, this one reads up to {newest})")
    return kind.schema <= newest


def _current(found: StoredReproduction, name: str) -> StoredReproduction:
    """Return an answer as this version would write it. In schema 1, ``model_outputs`` is None where it now is ``all``."""

    def conditions(of: Sequence[StoredCondition]) -> tuple[StoredCondition, ...]:
        return tuple(_renamed(one) if found.schema == 1 and one.factor == "model_outputs" else one for one in of)

    needs, indifferent = conditions(found.needs), conditions(found.indifferent)
    return msgspec.structs.replace(found, name=name, needs=needs, indifferent=indifferent)


def _renamed(condition: StoredCondition) -> StoredCondition:
    values = {part: tuple("all" if one is None else one for one in getattr(condition, part)) for part in _VALUES}
    return msgspec.structs.replace(condition, **values)


_VALUES = ("shown", "hidden", "unknown")


def _words(condition: StoredCondition, shown: Sequence[object], hidden: Sequence[object] = ()) -> str:
    if condition.factor not in BY_NAME:  # of another version
        return f"{condition.factor}={' or '.join(map(str, shown))}"
    return BY_NAME[condition.factor].text(shown, hidden)


def reduced_words(variant: str) -> tuple[str, ...]:
    """Return, in words, the values that a variant of a simplest scenario changes."""
    return tuple(_worded(name, text) for name, text in variant_values(variant).items())


def _worded(name: str, text: str) -> str:
    """Return in words a parameter and its value, given as in a variant's name."""
    if name not in BY_NAME:
        return f"{name}={text}"
    factor = BY_NAME[name]
    values = dict.fromkeys((*factor.values, *factor.further, *factor.words))
    known = [value for value in values if variant_id({name: value}) == f"{name}={text}"]
    return factor.text(known or (text,))


def _workload_of(cell: str) -> WorkloadParts:
    return split_workload(cell.partition("/")[2])
