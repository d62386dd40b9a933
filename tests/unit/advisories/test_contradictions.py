"""No stored result contradicts an advisory: its range, its conditions, or a release that it calls unaffected.

All records of `results/` are put to all advisories. One that meets the conditions shows the problem in an affected release,
and does not in an unaffected one, unless another advisory that it meets shows in the same way. One that ended before it
could be judged, or of which a fact is not known, says nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import msgspec
import pytest

from dsregress.advisories.advisory import Advisory, MeasuredSymptom
from dsregress.advisories.shipped import read_advisories
from tests.golden_files import Golden
from tests.paths import ROOT
from tests.unit.advisories import index_page, stored
from tests.unit.advisories.stored import Record
from tests.unit.advisories.table import entries


class _Said(msgspec.Struct, frozen=True):
    """One record and one advisory whose conditions it meets."""

    advisory: Advisory
    claimed: bool
    shown: bool | None


class _Checked:
    """All records, put to all advisories."""

    def __init__(self, advisories: tuple[Advisory, ...], symptoms: Mapping[str, tuple[MeasuredSymptom, ...]]) -> None:
        self._symptoms = symptoms
        self.records = 0
        self.answers: Counter[str] = Counter()
        self.contradictions: list[str] = []
        #: advisory, release -> how its records that meet the conditions answer
        self.in_some_jobs: dict[tuple[str, str], set[bool]] = defaultdict(set)
        self._able = [one for one in advisories if symptoms[one.id]]
        self._meeting: dict[tuple[str, str], list[Advisory]] = {}  #: by bundle and workload
        for record in stored.records():
            self._check(record)

    def _met(self, record: Record) -> list[Advisory]:
        key = (record.bundle, record.workload)
        if key not in self._meeting:
            self._meeting[key] = [one for one in self._able if stored.meets(one, record.facts)]
        return [one for one in self._meeting[key] if stored.has_partners(one, record)]

    def _check(self, record: Record) -> None:
        met = self._met(record)
        said = []
        for one in met:
            claimed = stored.claimed(one, record)
            if claimed is not None:
                said.append(_Said(one, claimed, stored.judged(one, self._symptoms[one.id], record)))
        answered = [one for one in said if one.shown is not None]
        self.records += bool(answered)
        for one in answered:
            if one.advisory.in_some_jobs:
                self._note_some(one, record)
            elif one.shown is one.claimed:
                self.answers["agrees"] += 1
            elif one.claimed is False and self._is_masked(one, said, met):
                self.answers["masked"] += 1
            else:
                does = "does not show it" if one.claimed else "shows it"
                self.contradictions.append(f"{one.advisory.id}, {one.advisory.title}: {record.name} {does}")
        self.answers["not judged"] += len(said) - len(answered)

    def _note_some(self, one: _Said, record: Record) -> None:
        if one.claimed:
            for each in one.advisory.ranges:
                if record.versions.get(each.package) in each.affected:
                    self.in_some_jobs[one.advisory.id, record.versions[each.package]].add(one.shown is True)
            self.answers["in some jobs"] += 1

    def _is_masked(self, one: _Said, said: list[_Said], met: list[Advisory]) -> bool:
        """Return True if another advisory shows in the same way in this record. Counts of work go up and down in steps, of
        which those that only some jobs have are not told apart."""
        others = [other.advisory for other in said if other.claimed] + [other for other in met if other.in_some_jobs]
        own = self._families(one.advisory)
        return any(other is not one.advisory and not own.isdisjoint(self._families(other)) for other in others)

    def _families(self, advisory: Advisory) -> set[str]:
        return {stored.family(metric) for one in self._symptoms[advisory.id] for metric in one.metrics}


@pytest.mark.slow
def test_no_stored_result_contradicts_an_advisory(golden: Golden) -> None:
    symptoms = {entry.id: stored.symptoms_of(entry) for entry in entries()}
    checked = _Checked(read_advisories(), symptoms)
    print(f"{checked.records:,} of {len(stored.records()):,} records say something: {dict(checked.answers)}")  # noqa: T201
    assert checked.contradictions == [], "\n".join(checked.contradictions)
    without = [f"{name} in {release}" for (name, release), shown in checked.in_some_jobs.items() if True not in shown]
    assert without == []
    numbers = {
        "records": checked.records,
        "of": len(stored.records()),
        "answers": checked.answers["agrees"] + checked.answers["in some jobs"],
        "masked": checked.answers["masked"],
    }
    page = index_page.written({name: f"{number:,}" for name, number in numbers.items()})
    golden(index_page.PAGE.relative_to(ROOT).as_posix(), page, folder=ROOT)


@pytest.mark.slow
def test_a_wrong_range_or_condition_is_a_contradiction() -> None:
    """So that the test above can fail."""
    (held,) = [one for one in read_advisories() if one.evidence.script == "held_layers.py"]
    symptoms = {entry.id: stored.symptoms_of(entry) for entry in entries()}
    (one,) = held.ranges
    swapped = msgspec.structs.replace(one, affected=one.unaffected, unaffected=one.affected)
    looser = tuple(each for each in held.conditions if each.fact != "gradient_checkpointing")
    for wrong in (
        msgspec.structs.replace(held, ranges=(swapped,)),
        msgspec.structs.replace(held, conditions=looser),
    ):
        assert _Checked((wrong,), symptoms).contradictions
