"""The summary of a result that a comparison keeps: its exact values, its rounds, and the oracles' judgements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dsregress.compare.coverage import not_judged
from dsregress.compare.growing_counts import StepGrowth, step_growth
from dsregress.compare.metrics import (
    DEVICE_EXCESS,
    DEVICE_RETAINED,
    ERRORS,
    IMPORT_TIME,
    INIT_TIME,
    PROCESSOR_TIME,
    STEP_TIME,
)
from dsregress.compare.rank_feeds import Feed, feeds
from dsregress.compare.worst_readings import Exact, Excess, exact_values, excesses, worst_values
from dsregress.model import Result
from dsregress.probe.border.wire import NO_NUMBER, Numerics, ResumedData, RunRecord, SavedTensors

#: The phase of a program that generates.
_GENERATE = "generate"


class ResultSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One result without its bulk."""

    result: Result  #: without its record, and the list of what was installed
    exact: Exact = ()  #: empty where nothing was recorded
    recorded: bool = False
    world_size: int = 0
    round_s: tuple[float, ...] = ()
    processor_s: tuple[float, ...] = ()  #: of these rounds, all ranks together; empty where that is not known
    init_s: float | None = None
    import_s: float = 0.0
    digest: str = ""  #: of the trained parameters
    errors: tuple[tuple[str, float], ...] = ()  #: the oracle's distances, of the worst rank
    trained: tuple[tuple[str, Numerics], ...] = ()  #: by model, what is compared with the baseline's training
    #: by rank and model, where a distance is above 1 or a loss is not a number
    suspects: tuple[tuple[int, str, Numerics], ...] = ()
    state_bytes: int = 0  #: of the optimizer, on the device, by the ideal; for the model of step time
    notes: tuple[str, ...] = ()  #: notes that a reader of the figures has to know
    saved: tuple[SavedTensors, ...] = ()  #: by a program, until it was measured
    saved_last: tuple[SavedTensors, ...] = ()  #: until it ended; empty if it was ended
    empty_files: tuple[str, ...] = ()  #: of weights, that it has saved
    ended: bool = False  #: a program, by itself
    goes_on: bool | None = None  #: from what an earlier run has left to it; None where that is not known
    resumed: ResumedData | None = None  #: what it was fed first then, of the worst rank
    steps: int = 0  #: until then, or until it was ended, of the first rank
    step_growth: StepGrowth = StepGrowth()  #: of a program that ran on
    logged: tuple[
        dict[str, float | None], ...
    ] = ()  #: losses and gradient norms, by call of a trainer, of the first rank
    unsaved: tuple[str, ...] = ()  #: trained weights that a model's own files lack
    loaded_otherwise: tuple[str, ...] = ()  #: weights that are loaded from its own files with other values
    uses: tuple[str, ...] = ()  #: modules of packages; empty where that is not known
    fed: tuple[Feed, ...] = ()  #: to a program's models, by rank
    generates: bool = False  #: a program, by itself: what it feeds then follows from its training
    excesses: tuple[Excess, ...] = ()  #: of held memory over what ZeRO needs, by phase
    not_judged: tuple[tuple[str, str], ...] = ()  #: oracles that could not judge it, and why

    def flat(self) -> dict[str, float]:
        """Return every metric by its flat name: ``backward.device_peak_bytes``, ``step_time_s``, ..."""
        return {**self.worst(), **self.noisy()}

    def worst(self) -> dict[str, float]:
        """Return the exact metrics of the worst rank. They are equal if ``exact`` is equal."""
        return worst_values(self.exact)

    def noisy(self) -> dict[str, float]:
        """Return the metrics that are not exact."""
        if not self.recorded:
            return {}
        values = {STEP_TIME.name: statistics.median(self.round_s)} if self.round_s else {}
        if self.processor_s:
            values[PROCESSOR_TIME.name] = statistics.median(self.processor_s)
        if self.init_s is not None:
            values[INIT_TIME.name] = self.init_s
        values |= {DEVICE_EXCESS.flat_name(found.phase): found.size for found in self.excesses}
        return {**values, IMPORT_TIME.name: self.import_s, **dict(self.errors)}


def summarize(result: Result) -> ResultSummary:
    """Return the summary of a result that a comparison keeps."""
    record = result.record
    if record is None:
        return ResultSummary(result=msgspec.structs.replace(result, installed={}))
    errors: dict[str, float] = {}
    suspects: list[tuple[int, str, Numerics]] = []
    trained: dict[str, Numerics] = {}
    digests: dict[str, str] = {}
    all_numerics = list(_numerics(record))
    for rank, model, numbers in all_numerics:
        digests.setdefault(model, numbers.parameter_digest)
        measured = distances(numbers)
        if numbers.learning_rates or (numbers.losses and not measured):  # of programs, and of what has no truth
            trained.setdefault(model, numbers)
        for name, distance in measured:
            size = distance if distance < NO_NUMBER else math.inf
            errors[name] = max(size, errors.get(name, 0.0))
        if suspicious(numbers, measured):
            suspects.append((rank, model, numbers))
    over = excesses(record)
    return ResultSummary(
        result=msgspec.structs.replace(result, record=None, installed={}),
        exact=exact_values(record),
        recorded=True,
        world_size=record.world_size,
        round_s=tuple(record.round_s),
        processor_s=tuple(cost.processor_s for cost in record.costs),
        init_s=max((rank.init_s for rank in record.ranks), default=None),
        import_s=record.import_s,
        digest=" ".join(filter(None, digests.values())),
        errors=tuple(errors.items()),
        trained=tuple(trained.items()),
        suspects=tuple(suspects),
        state_bytes=state_bytes(record) if result.cell.device == "sim" else 0,
        notes=noted(record),
        saved=_of_all_ranks([rank.saved for rank in record.ranks]),
        saved_last=_of_all_ranks([rank.saved_last for rank in record.ranks]),
        empty_files=tuple(sorted({name for rank in record.ranks for name in rank.empty_files})),
        ended=bool(record.ranks) and all(rank.ended for rank in record.ranks),
        goes_on=_any_known(rank.goes_on for rank in record.ranks),
        resumed=_least_right(rank.resumed for rank in record.ranks),
        steps=record.ranks[0].steps if record.ranks else 0,
        step_growth=step_growth(record),
        logged=tuple(record.ranks[0].logged) if record.ranks else (),
        unsaved=tuple(sorted({text for rank in record.ranks for text in rank.unsaved})),
        loaded_otherwise=tuple(record.ranks[0].loaded_otherwise) if record.ranks else (),
        uses=tuple(sorted({name for rank in record.ranks for name in rank.uses})),
        fed=feeds(record),
        generates=any(_GENERATE in rank.phases for rank in record.ranks),
        excesses=over,
        not_judged=not_judged(result, record, over, [numbers for *_, numbers in all_numerics], judged=bool(errors)),
    )


def _numerics(record: RunRecord) -> Iterator[tuple[int, str, Numerics]]:
    """Yield rank, model and numerics; the model's name is empty if only one trains."""
    for rank in record.ranks:
        if rank.numerics is not None:
            yield rank.rank, "", rank.numerics
        for name, numbers in rank.models.items():
            yield rank.rank, name, numbers


def noted(record: RunRecord) -> tuple[str, ...]:
    """Return the notes of all ranks that a reader of the figures has to know."""
    return tuple(dict.fromkeys(note for rank in record.ranks for note in rank.notes))


def _any_known(told: Iterable[bool | None]) -> bool | None:
    """Return True if any is; None if that is not known of any."""
    known = [one for one in told if one is not None]
    return any(known) if known else None


def _least_right(told: Iterable[ResumedData | None]) -> ResumedData | None:
    """Return the first that is not right, or else the first that is known."""
    known = [one for one in told if one is not None]
    return next((one for one in known if not one.is_right), next(iter(known), None))


def _of_all_ranks(saved_by: Sequence[Sequence[SavedTensors]]) -> tuple[SavedTensors, ...]:
    """Return the tensors that all ranks save; if several ranks save one name, those of the first."""
    found: dict[str, list[SavedTensors]] = {}
    for saved in saved_by:
        names = {one.name for one in saved} - found.keys()
        for one in saved:
            if one.name in names:
                found.setdefault(one.name, []).append(one)
    return tuple(one for alike in found.values() for one in alike)


def state_bytes(record: RunRecord) -> int:
    """Return the bytes of optimizer state on the device of the first rank, by the ideal: a step reads and writes them
    once."""
    ideal = record.ranks[0].ideal.get(DEVICE_RETAINED.flat_name("step"), {}) if record.ranks else {}
    return ideal.get("master", 0) + ideal.get("optimizer", 0)


def distances(numbers: Numerics) -> list[tuple[str, float]]:
    """Return the oracle's distances that were measured, by the metric's name."""
    return [(metric.name, distance) for metric in ERRORS if (distance := getattr(numbers, metric.name)) is not None]


def suspicious(numbers: Numerics, measured: Sequence[tuple[str, float]]) -> bool:
    """Return True if the oracle has to look closer. ``measured`` are its `distances`."""
    if numbers.replicas_apart or numbers.dropping or numbers.broken:
        return True
    for _, distance in measured:
        if not distance <= 1:
            return True
    if None in numbers.losses or not math.isfinite(sum(numbers.losses)):  # type: ignore[arg-type]
        return True
    return len(numbers.gradient_norms) > 1 and all(norm == 0 for norm in numbers.gradient_norms)
