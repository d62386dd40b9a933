"""A sweep on paper and as a simulated schedule: the paper is never beaten, and close where one thing is scarce."""

from __future__ import annotations

import msgspec
import pytest

from tests.benchmarks.sweep import SWEEPS, SimulatedSweep, on_paper, run, simulate

LARGE = SWEEPS["10,000 cells, 1,000 workers"]


def test_the_large_sweep_is_ten_thousand_cells_on_a_thousand_workers() -> None:
    assert (LARGE.cells, LARGE.workers) == (10_000, 1_000)


@pytest.mark.parametrize("name", SWEEPS)
def test_no_schedule_beats_the_paper_and_all_places_time_is_accounted_for(name: str) -> None:
    schedule = simulate(SWEEPS[name])
    assert schedule.makespan_s >= on_paper(SWEEPS[name]).compute_s * 0.98  # drawn durations are not quite their mean
    assert schedule.makespan_s >= on_paper(SWEEPS[name]).download_s
    parts = schedule.in_cells + schedule.in_imports + schedule.waiting_for_environments + schedule.idle
    assert parts == pytest.approx(1)


def test_on_empty_nodes_what_the_paper_leaves_out_is_the_end_of_the_sweep() -> None:
    schedule = simulate(LARGE)
    the_end = schedule.idle * schedule.makespan_s
    assert schedule.makespan_s == pytest.approx(on_paper(LARGE).empty_s + the_end, rel=0.1)


def test_with_few_workers_the_paper_is_right_to_a_hundredth() -> None:
    few = SWEEPS["10,000 cells, 16 workers"]
    assert simulate(few).makespan_s == pytest.approx(on_paper(few).least_s, rel=0.01)


@pytest.mark.slow
def test_a_slow_index_is_the_bottleneck_and_reported_as_such() -> None:
    slow = SWEEPS["the same, index at 1 Gbit/s"]
    assert on_paper(slow).bottleneck == "index"
    assert simulate(slow).bottleneck == "environments"
    assert simulate(slow).makespan_s == pytest.approx(on_paper(slow).empty_s, rel=0.05)


@pytest.mark.slow
def test_a_driver_that_stores_slowly_is_the_bottleneck() -> None:
    slow = msgspec.structs.replace(LARGE, store_s=0.1)
    assert on_paper(slow).bottleneck == "driver"
    assert simulate(slow).makespan_s == pytest.approx(10_000 * 0.1, rel=0.2)
    assert simulate(slow).stored_late_s > 100


@pytest.mark.slow
def test_a_worker_that_keeps_its_environment_imports_little_more_than_once() -> None:
    assert simulate(LARGE).imports < 2 * LARGE.workers


def test_one_cell_on_one_worker_takes_its_parts_one_after_another() -> None:
    alone = SimulatedSweep(releases=1, scenarios=1, nodes=1, workers_per_node=1, spread=0, shared_bytes=1_250_000_000)
    assert simulate(alone).makespan_s == pytest.approx(1.0 + 3.4 + 4.9 + 8.1 + 0.002)


@pytest.mark.slow
def test_the_bench_tells_each_sweep_with_its_paper() -> None:
    first, *_ = run()
    assert first.what == "10,000 cells, 1,000 workers: all of it"
    assert first.goal == "on paper 97 s at least, by compute; 193 s on empty nodes"
