"""Which question a search asks where none was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bisect.exact import ExactTester
from harness.bisect.plan import Candidate, SearchPlan
from harness.bisect.search import run_search
from harness.config.settings import Settings
from harness.model import Result, Verdict
from harness.probe.border.wire import RunRecord
from harness.store import Store
from tests.builders import synthetic

RELEASES = tuple(f"0.{number}.0" for number in range(10, 20))


class _Runner:
    """Answers with made-up results; `harness.bisect.runner.VersionRunner` measures them."""

    def __init__(self, folder: Path, records: Mapping[str, RunRecord]) -> None:
        self.settings, self.store, self.runs = Settings(), Store(str(folder)), 0
        self.watch: Any = SimpleNamespace(note=lambda line: None)
        self._records = records

    def stored(self, version: Candidate) -> Sequence[Result]:
        return ()

    def cell(self, version: Candidate) -> Any:
        return self._result(version).cell

    def expected_s(self) -> float:
        return 1.0

    def measure(self, versions: Sequence[Candidate]) -> list[Result]:
        self.runs += len(versions)
        return [self._result(version) for version in versions]

    def _result(self, version: Candidate) -> Result:
        return synthetic.result(version.name, run=self._records.get(version.name, synthetic.record()))


def searched(folder: Path, records: Mapping[str, RunRecord], *, span: bool) -> tuple[str, str]:
    """The metric of the search, and the first release that is bad."""
    runner: Any = _Runner(folder, records)
    plan = SearchPlan(
        kind="releases",
        package="deepspeed",
        versions=tuple(Candidate(name=name, stack=synthetic.stack(name)) for name in RELEASES),
        question=None,
        to=Verdict.BAD,
        hunt=span,
    )
    found = run_search(plan, ExactTester(plan, runner), runner)
    return found.metric, RELEASES[found.changes[0].after]


def record(*, held_mib: int = 0, calls: int = 1) -> RunRecord:
    return synthetic.noisy_record(1, held_mib=held_mib, calls=calls)


@pytest.mark.parametrize("span", [True, False])
def test_more_work_at_the_bad_end_is_searched_for_where_there_is_nothing_graver(tmp_path: Path, span: bool) -> None:
    records = {name: record(calls=3) for name in RELEASES[3:]}
    assert searched(tmp_path, records, span=span) == ("backward.host_calls", RELEASES[3])


def test_memory_that_came_and_went_is_found_though_the_ends_differ_in_work(tmp_path: Path) -> None:
    records = {name: record(calls=3) for name in RELEASES[2:]}
    records |= {name: record(calls=3, held_mib=500) for name in RELEASES[4:8]}
    assert searched(tmp_path, records, span=True) == ("backward.device_retained_bytes", RELEASES[4])


def test_a_bad_end_that_is_named_is_what_is_searched_by(tmp_path: Path) -> None:
    records = {name: record(calls=3) for name in RELEASES[2:]}
    records |= {name: record(calls=3, held_mib=500) for name in RELEASES[4:8]}
    assert searched(tmp_path, records, span=False) == ("backward.host_calls", RELEASES[2])
