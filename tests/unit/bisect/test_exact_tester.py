"""Which question a search asks where none was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsregress.bisect.exact_tester import ExactTester
from dsregress.bisect.plan import Candidate, SearchPlan
from dsregress.bisect.result import SearchResult
from dsregress.bisect.search import run_search
from dsregress.config.settings import Settings
from dsregress.model import Result, Verdict
from dsregress.probe.border.wire import RunRecord
from dsregress.store import Store
from dsregress.store.reuse import reusable
from tests.builders import synthetic

RELEASES = tuple(f"0.{number}.0" for number in range(10, 20))


class _Runner:
    """Answers with made-up results; `dsregress.bisect.runner.VersionRunner` measures them."""

    def __init__(self, folder: Path, records: Mapping[str, RunRecord]) -> None:
        self.settings, self.store, self.runs = Settings(), Store(str(folder)), 0
        self.watch: Any = SimpleNamespace(note=lambda line: None)
        self._records = records

    def counts(self, version: Candidate) -> Result | None:
        return reusable(self.stored(version), 0)

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
    found, _ = search(folder, records, span=span)
    return found.metric, RELEASES[found.changes[0].after]


def search(
    folder: Path, records: Mapping[str, RunRecord], *, span: bool, note: Callable[[str], None] = lambda line: None
) -> tuple[SearchResult, ExactTester]:
    """Search to the end; ``note`` gets each line of progress."""
    runner: Any = _Runner(folder, records)
    runner.watch = SimpleNamespace(note=note)
    plan = SearchPlan(
        kind="releases",
        package="deepspeed",
        versions=tuple(Candidate(name=name, stack=synthetic.stack(name)) for name in RELEASES),
        question=None,
        to=Verdict.BAD,
        hunt=span,
    )
    tester = ExactTester(plan, runner)
    return run_search(plan, tester, runner), tester


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


def test_a_problem_of_its_own_that_is_met_on_the_way_is_named_with_its_ends(tmp_path: Path) -> None:
    records = {name: record(calls=3) for name in RELEASES[2:]}
    records |= {name: record(calls=3, held_mib=500) for name in RELEASES[4:8]}
    found, tester = search(tmp_path, records, span=True)
    measured = [probe.name for probe in found.probes if probe.answer is not None]
    (met,) = tester.met()
    since = RELEASES[2]
    assert met.startswith(
        f"deepspeed {min(name for name in measured if name >= since)} to {RELEASES[-1]}: backward makes "
    )
    assert met.endswith(f"; not in {max(name for name in measured if name < since)}")


def test_what_is_met_and_is_graver_than_what_was_searched_for_says_so(tmp_path: Path) -> None:
    records = {name: record(calls=3) for name in RELEASES[2:]}
    records |= {name: record(calls=3, held_mib=500) for name in RELEASES[4:8]}
    found, tester = search(tmp_path, records, span=False)
    assert found.metric == "backward.host_calls"
    (met,) = tester.met()
    assert met.startswith("graver: deepspeed ")
    assert "backward holds 500 MiB more" in met


def test_while_something_graver_is_looked_for_the_ends_say_what_they_have(tmp_path: Path) -> None:
    lines: list[str] = []
    records = {name: record(calls=3) for name in RELEASES[2:]}
    records |= {name: record(calls=3, held_mib=500) for name in RELEASES[4:8]}
    search(tmp_path, records, span=True, note=lines.append)
    assert f"  {RELEASES[0]}: good, no relevant difference" in lines
    (last,) = [line for line in lines if line.startswith(f"  {RELEASES[-1]}: good, nothing graver than: ")]
    assert "more Python and C calls" in last
