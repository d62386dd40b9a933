"""A finding as a test of cells: which of them show it, in two releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dsregress.bisect.questions import parse_question
from dsregress.config.settings import Settings
from dsregress.model import Cell, Result, Stack, Verdict
from dsregress.probe import scenario
from dsregress.probe.border.wire import Numerics, RankRecord, RunRecord
from dsregress.reproduce.cells import ReleasePair
from dsregress.reproduce.factors import SIMPLEST
from dsregress.run.session import Session
from tests.builders.cells import result_of
from tests.paths import ROOT
from vgpu.figures import PhaseReading

MINIMAL = scenario.load(ROOT / "scenarios" / f"{SIMPLEST}.py")
BAD, GOOD = "0.16.0", "0.15.4"
HELD = "backward.device_retained_bytes"

#: (version, parameters) -> bytes held after backward, or tolerances from plain PyTorch.
Figure = Callable[[str, Mapping[str, Any]], float]


class Measured:
    """The session of a made-up pair of releases; keeps what was measured together."""

    def __init__(self, figure: Figure, metric: str) -> None:
        self.settings = Settings()
        self.together: list[list[tuple[str, int]]] = []  #: (version, accumulation)
        self._figure, self._metric = figure, metric

    def measure(self, cells: Sequence[Cell], **_: Any) -> list[Result]:
        steps = "gradient_accumulation_steps"
        self.together.append([(cell.stack.versions["deepspeed"], cell.parameters[steps]) for cell in cells])
        return [self._result(cell) for cell in cells]

    def _result(self, cell: Cell) -> Result:
        figure = self._figure(cell.stack.versions["deepspeed"], cell.parameters)
        reading, numerics = PhaseReading(), Numerics(losses=[1.0], true_losses=[1.0])
        if self._metric == HELD:
            reading.device_retained_bytes = int(figure)
        else:
            numerics.gradient_norm_error = figure
        rank = RankRecord(rank=0, phases={"backward": reading}, numerics=numerics)
        return result_of(cell, RunRecord(outcome="passed", world_size=1, ranks=[rank]))


def pair_of(figure: Figure, metric: str = HELD) -> tuple[ReleasePair, Measured]:
    def stack(version: str) -> Stack:
        return Stack(python="3.11", versions={"deepspeed": version}, label=version)

    session = Measured(figure, metric)
    opened = cast(Session, SimpleNamespace(measure=session.measure, settings=session.settings))
    return ReleasePair(parse_question(metric), stack(BAD), stack(GOOD), opened, MINIMAL, lambda _: None), session


def accumulating(*steps: int) -> list[dict[str, Any]]:
    return [MINIMAL.resolve("base", "cpu", {"gradient_accumulation_steps": number}) for number in steps]


def holding(excess: Mapping[int, int]) -> Figure:
    """By accumulation, what the bad release holds beyond the good one."""
    return lambda version, p: 10_000 + (excess[p["gradient_accumulation_steps"]] if version == BAD else 0)


@pytest.mark.parametrize(
    ("excess", "verdict"),
    [(4_000, Verdict.BAD), (1_000, Verdict.BAD), (999, Verdict.UNKNOWN), (125, Verdict.GOOD), (-500, Verdict.GOOD)],
)
def test_a_figure_is_compared_with_what_the_findings_own_cell_has_beyond_the_other(
    excess: int, verdict: Verdict
) -> None:
    """The thresholds' floor, 64 KiB, is for a job; a smaller cell has less of the same."""
    pair, _ = pair_of(holding({4: 4_000, 1: excess}))
    assert pair.begin(*accumulating(4)) is Verdict.BAD
    assert pair.shows(accumulating(1)) == [verdict]


@pytest.mark.parametrize("excess", [0, -4_000, 100])
def test_a_finding_that_its_own_cell_does_not_show_at_a_small_size_is_not_begun(excess: int) -> None:
    pair, _ = pair_of(holding({4: excess}))
    assert pair.begin(*accumulating(4)) is Verdict.GOOD


def test_a_distance_from_the_truth_is_judged_by_itself() -> None:
    pair, _ = pair_of(lambda version, p: 30.0 if version == BAD else 0.1, "gradient_norm_error")
    assert pair.begin(*accumulating(4)) is Verdict.BAD


@pytest.mark.parametrize(
    ("bad", "good", "verdict"),
    [
        (0.2, 0.01, Verdict.GOOD),  # rounding
        (0.8, 0.1, Verdict.UNKNOWN),  # the finding, maybe, of which there is less
        (0.8, 0.6, Verdict.GOOD),
        (1.6, 0.1, Verdict.BAD),
        (1.6, 1.2, Verdict.UNKNOWN),
    ],
)
def test_a_distance_within_tolerance_is_sound_where_the_other_release_has_it_as_well(
    bad: float, good: float, verdict: Verdict
) -> None:
    pair, _ = pair_of(lambda version, p: bad if version == BAD else good, "gradient_norm_error")
    assert pair.shows(accumulating(4)) == [verdict]


@pytest.mark.parametrize(("metric", "judged"), [(HELD, False), ("gradient_norm_error", True)])
def test_plain_pytorch_trains_where_it_is_compared_with(metric: str, judged: bool) -> None:
    seen = set()

    def figure(version: str, p: Mapping[str, Any]) -> float:
        seen.add(p["judged"])
        return 30.0 if version == BAD else 0.1

    pair, _ = pair_of(figure, metric)
    pair.shows(accumulating(1, 2))
    assert seen == {judged}


def test_the_other_release_is_asked_about_some_cells_while_the_one_measures_the_next() -> None:
    wrong = range(10)
    pair, session = pair_of(
        lambda version, p: 30.0 if version == BAD and p["gradient_accumulation_steps"] in wrong else 0.1,
        "gradient_norm_error",
    )
    verdicts = pair.shows(accumulating(*range(1, 21)))
    assert verdicts == [Verdict.BAD if at in wrong else Verdict.GOOD for at in range(1, 21)]
    measured = [
        ([at for version, at in some if version == BAD], [at for version, at in some if version == GOOD])
        for some in session.together
    ]
    assert measured == [
        ([*range(1, 9)], []),
        ([*range(9, 17)], [*range(1, 9)]),
        ([*range(17, 21)], [9]),
    ]


@pytest.mark.parametrize("count", [0, 1, 8, 9, 16])
def test_every_cell_has_its_verdict(count: int) -> None:
    pair, _ = pair_of(lambda version, p: 30.0 if version == BAD else 0.1, "gradient_norm_error")
    assert pair.shows(accumulating(*range(1, count + 1))) == [Verdict.BAD] * count
