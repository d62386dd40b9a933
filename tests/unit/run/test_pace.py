"""When timed rounds end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from dsregress.config.settings import Settings
from dsregress.config.thresholds import LOOKS, Thresholds
from dsregress.launch import schedule
from dsregress.launch.contract import Ended
from dsregress.launch.fake import FakeExecutor, passes
from dsregress.model import Cell, Failed
from dsregress.run.pace import Budget, least_rounds, run_plan
from tests.builders.cells import cell, environment

#: Seconds of rounds by stack: the same as the baseline's, twice as long, and too noisy to say.
ROUNDS = {"A": [1.0], "same": [1.0, 1.01], "slow": [2.0, 2.01], "noisy": [0.2, 5.0]}


def behave(cell: Cell) -> Ended:
    ended = passes(cell)
    assert ended.record is not None
    ended.record.round_s = ROUNDS[cell.stack.label]
    return ended


def rounds_run(*versions: str, budget: Budget) -> Counter[str]:
    executor = FakeExecutor(behave)
    members = [(cell(version), executor.worker(environment(version), "cpu", "f")) for version in versions]
    for _ in schedule.interleave(members, run_plan(Settings(warmup_rounds=2)), pace=budget):
        pass
    assert len([line for line in executor.log if line.startswith("stop")]) == len(versions)
    return Counter(line.removeprefix("round ").removesuffix(":cpu") for line in executor.log if "round" in line)


def test_pairs_that_are_decided_stop_and_the_others_go_on_until_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now.__setitem__(0, now[0] + 1) or now[0])
    counts = rounds_run("A", "same", "noisy", "slow", budget=Budget(30.0, 1, 3, Thresholds()))
    first = 2 + LOOKS[0]
    assert (counts["same"], counts["slow"]) == (first, first)
    assert counts["A"] == counts["noisy"] > first


def test_releases_that_have_stopped_go_on_to_say_how_much_rounds_scatter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def decided(budget: Budget, rounds: Mapping[str, Sequence[float]], baseline: Sequence[float]) -> set[str]:
        asked.append({cell: len(seconds) for cell, seconds in rounds.items()})
        return {"stops"}

    monkeypatch.setattr(Budget, "decided", decided)
    turns = Budget(1000.0, 1, 2, Thresholds()).session()
    first, second = ([1.0] * rounds for rounds in LOOKS[:2])
    assert set(turns.enough("A", {"A": first, "stops": first, "goes on": first})) == {"stops"}
    assert set(turns.enough("A", {"A": second, "goes on": second})) == set()
    assert asked[1] == {"stops": LOOKS[0], "goes on": LOOKS[1]}


def test_the_baseline_stops_with_the_last_pair() -> None:
    budget = Budget(1000.0, 1, 2, Thresholds())
    assert set(rounds_run("A", "same", "slow", budget=budget).values()) == {2 + LOOKS[0]}
    assert rounds_run("A", budget=budget) == {"A": 2 + LOOKS[0]}


def test_without_time_there_are_the_rounds_of_the_first_look() -> None:
    counts = rounds_run("A", "noisy", budget=Budget(1e-6, 1, 1, Thresholds()))
    assert set(counts.values()) == {2 + LOOKS[0]} == {2 + least_rounds(Settings())}


def test_sessions_share_the_time_and_leave_what_they_do_not_need(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    budget = Budget(90.0, 3, 1, Thresholds())
    long = {"A": [1.0] * 12, "noisy": [0.2, 5.0] * 6}

    def ends_after(elapsed_s: float) -> bool:
        turns = budget.session()
        now[0] += elapsed_s
        is_over = set(turns.enough("A", long)) == {"A", "noisy"}
        turns.end()
        return is_over

    assert ends_after(30)  # of 90 for three
    assert not ends_after(20)  # of 60 for two
    assert not ends_after(39)  # of the 40 that are left


def test_a_session_in_which_nothing_can_be_timed_leaves_its_share_to_the_others() -> None:
    budget = Budget(90.0, 2, 1, Thresholds())
    executor = FakeExecutor(lambda cell: Ended(outcome=Failed(stage="forward", signature="x")))
    members = [(cell("A"), executor.worker(environment("A"), "cpu", "f"))]
    list(schedule.interleave(members, run_plan(Settings()), pace=budget))
    last = budget.session()
    last.end()
    assert last.share_s == pytest.approx(90.0, abs=1.0)


def test_a_fixed_number_of_rounds_is_kept() -> None:
    settings = Settings(rounds=3)
    assert (least_rounds(settings), run_plan(settings).rounds) == (3, 3)
