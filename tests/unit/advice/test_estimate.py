"""How long a step is expected to take: at the rates that real kernels reach, times a factor that published jobs gave."""

from __future__ import annotations

import dataclasses

import pytest

from dsregress.advice import gpus
from dsregress.advice.gpus import estimate
from vgpu.figures import PhaseReading

#: Peaks of 100 Tflop/s, 1 TB/s and 100 GB/s.
CARD = dataclasses.replace(
    gpus.card("A100-80G"), tflops={"bf16": 100.0}, memory_gbs=1000.0, link_gbs=100.0, matmul_share=0.5
)


def reading(flops: float = 0, moved: float = 0, gathered: float = 0, copied: float = 0) -> PhaseReading:
    return PhaseReading(
        flops=int(flops),
        moved_bytes=int(moved),
        copied_bytes=int(copied),
        collectives={"broadcast": [1, int(gathered)]},
    )


def seconds(ranks: int = 8, **phases: PhaseReading) -> float | None:
    found = estimate.rooflines(phases, CARD, "bf16", ranks)
    return sum(one.seconds for one in found.values()) if found else None


def test_products_and_what_other_kernels_move_take_their_time_one_after_another() -> None:
    assert seconds(forward=reading(flops=100e12, moved=900e9)) == pytest.approx(2.0 + 1.0)


def test_collectives_overlap_and_count_where_they_take_longer() -> None:
    assert seconds(forward=reading(flops=100e12, moved=900e9, gathered=80e9)) == pytest.approx(3.0)
    assert seconds(forward=reading(flops=100e12, moved=900e9, gathered=400e9)) == pytest.approx(5.0)


def test_phases_follow_each_other_and_init_is_none_of_a_step() -> None:
    one = reading(moved=900e9)
    assert seconds(init=one, forward=one, backward=one, step=one) == pytest.approx(3.0)


@pytest.mark.parametrize(
    "phase",
    [reading(flops=1e12), reading(flops=1e12, moved=1e9, copied=1e9)],
    ids=["an older probe measured", "the optimizer is on the host"],
)
def test_no_estimate_where(phase: PhaseReading) -> None:
    assert seconds(forward=phase) is None
    assert estimate.seconds(estimate.rooflines({"forward": phase}, CARD, "bf16", 8), CARD) is None


def test_the_factor_is_that_of_the_cards_architecture_and_of_all_jobs_elsewhere() -> None:
    found = estimate.rooflines({"forward": reading(moved=900e9)}, CARD, "bf16", 8)
    other = dataclasses.replace(CARD, compute_capability="10.0")
    assert estimate.seconds(found, CARD) == pytest.approx(estimate.FACTORS["8.0"])
    assert estimate.seconds(found, other) == pytest.approx(estimate.FACTOR_ELSEWHERE)
    assert estimate.largest_error(other) == estimate.LARGEST_ERROR_ELSEWHERE
