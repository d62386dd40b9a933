"""Memory and step times that published jobs measured on real GPUs, compared with the simulation's predictions.

The table is data: the ``*.toml`` in ``tests/accuracy/measured``, with the programs in the same folder.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Literal

import msgspec

from dsregress.advice import capacity, gpus
from dsregress.advice.gpus import estimate, step_time
from dsregress.errors import UsageError, no_such
from dsregress.model import Outcome, Passed, Result
from vgpu.card_room import Certainty
from vgpu.figures import MemoryReading

_FOLDER = Path(__file__).parent / "measured"

Unit = Literal["GiB", "GB", "MiB", "bytes"]

_BYTES: dict[Unit, int] = {"GiB": 1 << 30, "GB": 10**9, "MiB": 1 << 20, "bytes": 1}

#: The rounding of figures in a unit, in that unit.
_ROUNDED_TO: dict[Unit, float] = {"GiB": 0.01, "GB": 0.01, "MiB": 1, "bytes": 1}

#: From here on, rounding to 0.01 GiB is less than what is allowed, and an error's share says something.
_LARGE_BYTES = 1 << 30

#: The quantities of figures: the name in the table -> the field of a reading.
QUANTITIES = {"allocated": "allocated_bytes", "peak": "allocated_peak_bytes", "reserved": "reserved_bytes"}

#: The goal: a prediction is as far off at most, whichever is more. Bytes that are allocated follow from the sizes of tensors
#: and the order of calls, so next to nothing is allowed; reserved bytes also from the timing of streams, so they are
#: predicted as a range, within which nothing is off.
ALLOWED_SHARE = {"allocated": 0.005, "peak": 0.005, "reserved": 0.03}
ALLOWED_BYTES = 0.02 * _BYTES["GiB"]


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The published figures of one moment, in the point's unit."""

    at: str  #: as `MemoryReading.at`, or the name of the function in it
    step: int | None = None  #: as `MemoryReading.step`; None: it happens once, or the last counts
    allocated: float | None = None
    peak: float | None = None
    reserved: float | None = None
    explained: str = ""  #: why a prediction misses


class Speed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The published speed of a job."""

    rate: float
    unit: str  #: ``tokens/s per GPU``; ``s``: the seconds of a step
    per_step: float = 0.0  #: how many of these a step has; 0 if the rate is a step's seconds
    dtype: str = "bf16"
    gpus_per_node: int = step_time.GPUS_PER_NODE
    network_gbits_per_gpu: float = step_time.NETWORK_GBITS_PER_GPU

    @property
    def step_s(self) -> float:
        """Return the seconds of one step, whether published as such or as a rate."""
        return self.per_step / self.rate if self.per_step else self.rate


class PublishedPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published run, with its memory or its speed."""

    name: str
    grade: Literal["A", "B"]
    measured_on: str
    line: str  #: the launch line
    gpu: str  #: the card of the simulation, by its name in the catalogue
    steps: int  #: optimizer steps before the simulated job may end
    rank: int = 0  #: whose figures were published
    deepspeed: str  #: the release that it was measured with, or one that ``unknown`` gives a reason for
    unknown: str
    packages: dict[str, str] = {}  #: package -> its version, if the configured stack has another
    chosen_again: str = ""  #: which release was tried first, what it predicted, and why this one took its place
    unit: Unit = "GiB"
    readings: tuple[Reading, ...] = ()
    fits: bool | None = (
        None  #: of a run on ``gpu``: False if it ran out of memory; None if it says nothing about the card
    )
    speed: Speed | None = None
    source: str = ""  #: of all points of a source
    folder: str = ""


class _PointSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str  #: of its folder
    source: str
    points: tuple[PublishedPoint, ...]


class _PointTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: tuple[_PointSource, ...]


class PredictedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One published number and its prediction."""

    point: str
    at: str
    step: int | None
    quantity: str  #: of `QUANTITIES`
    measured_bytes: int
    rounding_bytes: float  #: half the last digit of what was published
    predicted_bytes: int | None  #: None if the simulated job never reached this reading
    most_predicted_bytes: int | None = None  #: the other end, if timing makes a difference
    explained: str = ""

    @property
    def error_bytes(self) -> int | None:
        """Return predicted minus measured; for a range, by the prediction nearest to the measured figure."""
        if self.predicted_bytes is None:
            return None
        most = max(self.predicted_bytes, self.most_predicted_bytes or 0)
        return min(max(self.measured_bytes, self.predicted_bytes), most) - self.measured_bytes

    @property
    def is_as_printed(self) -> bool:
        """Return True if the prediction equals the published figure to the last digit."""
        return self.error_bytes is not None and abs(self.error_bytes) <= self.rounding_bytes

    @property
    def is_within(self) -> bool:
        """Return True if the prediction meets the goal (`ALLOWED_SHARE`, `ALLOWED_BYTES`)."""
        allowed = max(ALLOWED_SHARE[self.quantity] * self.measured_bytes, ALLOWED_BYTES)
        return self.error_bytes is not None and abs(self.error_bytes) <= allowed


class PredictedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One published step time and the modelled one."""

    measured_s: float
    bound_s: float  #: what no release can undercut, by `dsregress.advice.gpus.step_time`
    #: by `dsregress.advice.gpus.estimate`, before its factor
    matmul_s: float
    memory_s: float
    communication_s: float
    roofline_s: float

    @property
    def ratio(self) -> float:
        """Return the measured step time over the computed one."""
        return self.measured_s / self.roofline_s


class PredictedFit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one published run fitted its card, and the verdict of the simulation."""

    fitted: bool
    needed_bytes: int
    card_bytes: int  #: what the card has, before anything is set aside
    certainty: Certainty
    words: str

    @property
    def is_open(self) -> bool:
        """Return True if the verdict is that it is too close to call."""
        return self.certainty is Certainty.TOO_CLOSE

    @property
    def is_right(self) -> bool:
        """Return True if the verdict says what happened."""
        return not self.is_open and self.fitted is (self.certainty is not Certainty.DOES_NOT_FIT)


class PointAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A point with its prediction."""

    point: PublishedPoint
    cell: str  #: id
    torch: str  #: the version that the prediction is of
    outcome: Outcome
    figures: tuple[PredictedFigure, ...]
    step: PredictedStep | None = None  #: of a published speed; None if the simulated job has no such step
    fit: PredictedFit | None = None  #: None if the point says nothing about the card, or the job did not run to its end


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The basis of the factors of `dsregress.advice.gpus.estimate`, and how well they generalize. A point's error is that of
    an estimate by the factor of the other points, as a share of the measured time."""

    #: compute capability -> the median of measured over computed, if several points have it
    factors: dict[str, float]
    factor_elsewhere: float  #: of all points
    errors: dict[str, float]  #: point -> by the factor of the other points on its architecture
    errors_elsewhere: dict[str, float]  #: point -> by the factor of the points on other architectures
    above_twice_the_bound: int  #: points that take more than twice their lower bound


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of the predictions of one quantity, over the figures that have a prediction."""

    quantity: str
    figures: int
    as_printed: int
    within: int
    median_bytes: float  #: of absolute errors
    largest_bytes: int
    mean_share: float | None  #: of absolute errors, over what was measured; of figures from 1 GiB on
    largest_share: float | None


def read_points(wanted: Sequence[str] = ()) -> tuple[PublishedPoint, ...]:
    """Return the points of the table whose names match one of these globs; all points if there are no globs.

    Raise UsageError if the table cannot be read or a glob matches no point.
    """
    first = _FOLDER / "points.toml"
    others = sorted(file for file in _FOLDER.glob("*.toml") if file != first)
    every = [point for file in (first, *others) for point in _table_points(file)]
    names = [point.name for point in every]
    for glob in wanted:
        if not fnmatch.filter(names, glob):
            raise no_such("point", glob, names, where="--point")
    return tuple(point for point in every if not wanted or any(fnmatch.fnmatch(point.name, glob) for glob in wanted))


def _table_points(file: Path) -> list[PublishedPoint]:
    """Return the points of one file, each with what its source's points have in common."""
    try:
        raw = msgspec.toml.decode(file.read_bytes())
        for source in raw["sources"]:
            common = source.pop("common", {})
            source["points"] = [{**common, **point} for point in source["points"]]
        table = msgspec.convert(raw, _PointTable)
    except (OSError, ValueError, LookupError, TypeError) as error:  # msgspec's are ValueErrors
        hint = "undo what was edited"
        raise UsageError(f"cannot be read: {error}", where=str(file), hint=hint) from None
    return [
        msgspec.structs.replace(point, source=source.source, folder=str(_FOLDER / source.name))
        for source in table.sources
        for point in source.points
    ]


def compare_point(point: PublishedPoint, result: Result) -> PointAnswer:
    """Return the predictions of a point by the result of its simulated run."""
    taken = result.record.ranks[0].readings if result.record is not None and result.record.ranks else []
    return PointAnswer(
        point=point,
        cell=result.cell.id,
        torch=result.cell.stack.versions["torch"],
        outcome=result.outcome,
        figures=tuple(_figures(point, taken)),
        step=_step(point, result),
        fit=_fit(point, result),
    )


def _fit(point: PublishedPoint, result: Result) -> PredictedFit | None:
    record = result.record
    if point.fits is None or record is None or not record.ranks or not isinstance(result.outcome, Passed):
        return None
    card, phases, parameters = gpus.card(point.gpu), record.ranks[0].phases, result.cell.parameters
    needed, _ = capacity.needed_bytes(phases)
    allocated = {phase: reading.device_peak_bytes for phase, reading in phases.items()}
    found = capacity.verdict(card, parameters, allocated, needed)
    return PredictedFit(
        fitted=point.fits,
        needed_bytes=found.peak_bytes,
        card_bytes=card.usable_bytes,
        certainty=found.certainty,
        words=found.words,
    )


def _step(point: PublishedPoint, result: Result) -> PredictedStep | None:
    record = result.record
    if point.speed is None or record is None or not record.ranks or not isinstance(result.outcome, Passed):
        return None
    speed, card, phases = point.speed, gpus.card(point.gpu), record.ranks[0].phases
    ranks = int(result.cell.parameters["world_size"])
    node, network = speed.gpus_per_node, speed.network_gbits_per_gpu
    bounds = step_time.step_bound(phases, card, speed.dtype, ranks, gpus_per_node=node, network_gbits_per_gpu=network)
    found = estimate.rooflines(phases, card, speed.dtype, ranks, gpus_per_node=node, network_gbits_per_gpu=network)
    if not bounds or not found:
        return None
    return PredictedStep(
        measured_s=speed.step_s,
        bound_s=sum(bound.least_s for bound in bounds.values()),
        matmul_s=sum(one.matmul_s for one in found.values()),
        memory_s=sum(one.memory_s for one in found.values()),
        communication_s=sum(one.communication_s for one in found.values()),
        roofline_s=sum(one.seconds for one in found.values()),
    )


def calibration(answers: Sequence[PointAnswer]) -> Calibration | None:
    """Return the calibration by these points; None unless two architectures have at least two points each."""
    steps = {found.point.name: found.step for found in answers if found.step is not None}
    on = {found.point.name: gpus.card(found.point.gpu).compute_capability for found in answers}
    together = {kind: [name for name in steps if on[name] == kind] for kind in sorted({on[name] for name in steps})}
    together = {kind: names for kind, names in together.items() if len(names) > 1}
    if len(together) < 2:
        return None

    def factor(names: Iterable[str]) -> float:
        return median(steps[name].ratio for name in names)

    known = [name for names in together.values() for name in names]
    return Calibration(
        factors={kind: factor(names) for kind, names in together.items()},
        factor_elsewhere=factor(known),
        errors={
            name: factor(other for other in names if other != name) / steps[name].ratio - 1
            for names in together.values()
            for name in names
        },
        errors_elsewhere={
            name: factor(other for other in known if other not in names) / steps[name].ratio - 1
            for names in together.values()
            for name in names
        },
        above_twice_the_bound=sum(step.measured_s > 2 * step.bound_s for step in steps.values()),
    )


def _figures(point: PublishedPoint, taken: Sequence[MemoryReading]) -> Iterator[PredictedFigure]:
    for published in point.readings:
        found = [
            reading
            for reading in taken
            if published.step in (None, reading.step)
            and (reading.at == published.at or reading.at.endswith(f" in {published.at}"))
        ]
        for quantity, field in QUANTITIES.items():
            value: float | None = getattr(published, quantity)
            if value is not None:
                yield PredictedFigure(
                    point=point.name,
                    at=published.at,
                    step=published.step,
                    quantity=quantity,
                    measured_bytes=round(value * _BYTES[point.unit]),
                    rounding_bytes=_ROUNDED_TO[point.unit] * _BYTES[point.unit] / 2,
                    predicted_bytes=getattr(found[-1], field) if found else None,
                    most_predicted_bytes=found[-1].late_reserved_bytes if found and quantity == "reserved" else None,
                    explained=published.explained,
                )


def errors(answers: Iterable[PointAnswer]) -> tuple[Errors, ...]:
    """Return the distribution of errors, one for each quantity with predictions."""
    figures = [figure for found in answers for figure in found.figures]
    return tuple(
        _errors(quantity, predicted)
        for quantity in QUANTITIES
        if (predicted := [f for f in figures if f.quantity == quantity and f.error_bytes is not None])
    )


def _errors(quantity: str, figures: Sequence[PredictedFigure]) -> Errors:
    off = [abs(figure.error_bytes or 0) for figure in figures]
    shares = [
        abs(figure.error_bytes or 0) / figure.measured_bytes
        for figure in figures
        if figure.measured_bytes >= _LARGE_BYTES
    ]
    return Errors(
        quantity=quantity,
        figures=len(figures),
        as_printed=sum(figure.is_as_printed for figure in figures),
        within=sum(figure.is_within for figure in figures),
        median_bytes=median(off),
        largest_bytes=max(off),
        mean_share=mean(shares) if shares else None,
        largest_share=max(shares, default=None),
    )


def missed(answers: Iterable[PointAnswer]) -> tuple[PredictedFigure, ...]:
    """Return the figures whose prediction misses the goal."""
    figures = (figure for found in answers for figure in found.figures)
    return tuple(figure for figure in figures if figure.predicted_bytes is not None and not figure.is_within)


def incomplete(answers: Iterable[PointAnswer]) -> tuple[PointAnswer, ...]:
    """Return the points whose job did not pass in the simulation, or that lack a prediction."""
    return tuple(
        found
        for found in answers
        if not isinstance(found.outcome, Passed)
        or any(figure.predicted_bytes is None for figure in found.figures)
        or (found.point.speed is not None and found.step is None)
    )
