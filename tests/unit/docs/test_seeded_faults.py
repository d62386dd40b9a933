"""``docs/seeded-faults.md`` is what its template makes of what was seen."""

from __future__ import annotations

from tests.golden_files import Golden
from tests.paths import ROOT
from tests.programs.truth.seeded import seeded_faults
from tests.unit.docs import seeded_faults_page


def test_the_page_has_what_was_seen_of_each_fault(golden: Golden) -> None:
    golden(seeded_faults_page.PAGE.relative_to(ROOT).as_posix(), seeded_faults_page.written(), folder=ROOT)


def test_each_seeded_fault_was_looked_for_and_each_that_is_not_found_has_its_reason() -> None:
    seen = seeded_faults.seen()
    faults = seeded_faults.faults()
    assert {fault.key for fault in faults if fault.kind} == set(seen)
    assert [
        fault.key for fault in faults if not fault.missed and not (fault.kind and seen[fault.key].is_right(fault))
    ] == []
