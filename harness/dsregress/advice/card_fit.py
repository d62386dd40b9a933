"""Judge whether a job fits: simulated cells at several scales -> verdicts on cards, smallest scales that fit, break points.

Pure but for ``run``, which measures cells. A verdict compares the largest peak of the simulated rank with what a card
has for tensors: its usable memory less the overhead that no allocator of PyTorch sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.advice.capacity import (
    host_bytes_per_node,
    needed_bytes,
    reserved_range,
    taken_bytes,
    verdict,
)
from dsregress.advice.certainty import OVERHEAD_BYTES, certainty, certainty_words
from dsregress.advice.gpus import Card, estimate, step_time
from dsregress.advice.gpus.step_time import STEP_PHASES, Bound
from dsregress.advice.gpus.traffic import Traffic, traffic
from dsregress.advice.largest_fitting import LargestFitting
from dsregress.advice.provenance import MeasureCells, MeasuredBy, Recorded, measured_by, provenance_notes
from dsregress.compare.metrics import DEVICE_RETAINED
from dsregress.errors import UsageError
from dsregress.model import Cell, Outcome, Passed, Result, Stack
from dsregress.probe.scenario import LAYERS, Scenario, ScenarioError, parse_variant, variant_id
from dsregress.wording import commands
from vgpu.card_room import Certainty
from vgpu.figures import PhaseReading

#: The largest scale that `sim` is tested at.
MOST_RANKS = 4096


class Sweep(msgspec.Struct, frozen=True):
    """One parameter that grows, and its values in growing order."""

    parameter: str
    values: tuple[int, ...]


class FitQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The workload that should fit, the cards, and the scales."""

    scenario: str
    variant: str
    others: tuple[str, ...] = ()  #: further variants, each with lines of its own
    cards: tuple[Card, ...]
    ranks: tuple[int, ...]
    sweep: Sweep | None = None
    overhead_bytes: int = OVERHEAD_BYTES
    gpus_per_node: int = step_time.GPUS_PER_NODE
    network_gbits_per_gpu: float = step_time.NETWORK_GBITS_PER_GPU

    @property
    def variants(self) -> tuple[str, ...]:
        """Return the variant and the further ones, each once."""
        return tuple(dict.fromkeys((self.variant, *self.others)))


class FitLine(msgspec.Struct, frozen=True, kw_only=True):
    """One cell on one card."""

    stack: str  #: id
    card: str
    ranks: int
    value: int | None  #: of the parameter that is swept
    cell: str
    variant: str = "base"
    outcome: Outcome
    peak_bytes: int | None  #: None if the cell did not run to its end
    peak_phase: str
    counted: str  #: ``reserved`` if an allocator was modelled, else ``allocated``
    held_after_backward_bytes: int | None
    host_bytes_per_node: int | None
    available_bytes: int
    #: (least, most) by the timing of streams, on a card without limit; None if no allocator was modelled
    reserved_bytes: tuple[int, int] | None = None
    taken_bytes: int = 0  #: of the card, by what else runs on it (a generation engine's share)
    sent_bytes: int = 0  #: payload of all collectives of a step
    traffic: Traffic | None = None  #: of a step; None if the ranks of the collectives are unknown
    fails_in: str  #: the first phase whose peak is too large; empty if all fit
    overhead_bytes: int = OVERHEAD_BYTES  #: set aside for what is outside PyTorch's allocator
    spans_nodes: bool = False
    bounds: dict[str, Bound]  #: phase -> least time, a model; empty if the card lacks the dtype
    #: by a calibrated model; None if it says nothing (`dsregress.advice.gpus.estimate`)
    estimated_step_s: float | None = None
    dtype_note: str = ""  #: why the card cannot compute in the job's dtype; empty if it can

    @property
    def headroom_bytes(self) -> int | None:
        """Return the room that is left on the card, negative if the cell does not fit; None without a peak."""
        return None if self.peak_bytes is None else self.available_bytes - self.peak_bytes

    @property
    def certainty(self) -> Certainty | None:
        """Return the verdict with its certainty; None without a peak."""
        if self.peak_bytes is None or self.headroom_bytes is None:
            return None
        return certainty(self.peak_bytes, self.headroom_bytes, self.overhead_bytes, spans_nodes=self.spans_nodes)

    @property
    def verdict(self) -> str:
        """Return the verdict in words: ``too close to call``, ``OUT OF MEMORY IN BACKWARD``."""
        if self.certainty in (None, Certainty.DOES_NOT_FIT):
            return reason(self).upper()
        return certainty_words(self.certainty, self.peak_bytes or 0)

    @property
    def fits(self) -> bool:
        """Return True if the cell ran to its end and every phase fits the card."""
        return self.peak_bytes is not None and not self.fails_in

    @property
    def least_step_s(self) -> float | None:
        """Return the modelled lower bound of a step (`dsregress.advice.gpus.step_time`); None if the card lacks the
        dtype."""
        return sum(bound.least_s for bound in self.bounds.values()) if self.bounds else None


class BreakPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a sweep: the largest value that fits, and the first that does not."""

    stack: str
    card: str
    ranks: int
    parameter: str
    largest_fitting: int | None  #: None: not even the smallest value fits
    first_failing: int | None  #: None: the largest value fits
    reason: str  #: why that one fails
    variant: str = "base"


class FitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts, in the order card, stack, variant, ranks, value."""

    question: FitQuery
    stacks: tuple[Stack, ...]
    lines: tuple[FitLine, ...]
    smallest: dict[str, dict[str, int | None]]  #: card -> stack -> fewest ranks that fit, of the first variant
    break_points: tuple[BreakPoint, ...]
    measured_by: tuple[MeasuredBy, ...] = ()
    notes: tuple[str, ...] = ()  #: what a reader of the figures has to know


def check_fit_query(question: FitQuery, scenario: Scenario) -> None:
    """Raise UsageError if the query cannot be answered, before anything is started."""
    if "sim" not in scenario.devices:
        raise UsageError(
            f"has no sim mode (it runs on: {', '.join(scenario.devices)})",
            where=question.scenario,
            hint="fit needs one: add `sim` to its devices",
        )
    parameters = {**scenario.parameters, **scenario.devices["sim"]}
    needed = ["world_size", *([question.sweep.parameter] if question.sweep else [])]
    for name in needed:
        if name not in parameters and not (name == LAYERS and "model" in parameters):
            raise UsageError(f"has no parameter {name}", where=question.scenario, hint="take another scenario or sweep")
    node = question.gpus_per_node
    for ranks in question.ranks:
        if not 1 <= ranks <= MOST_RANKS:
            raise UsageError(f"{ranks} ranks", where="--ranks", hint=f"a job has 1 to {MOST_RANKS}")
        if ranks > node and ranks % node:
            raise UsageError(
                f"{ranks} ranks do not fill nodes of {node} GPUs",
                where="--ranks",
                hint=f"take {ranks // node * node} or {(ranks // node + 1) * node}, or set --gpus-per-node",
            )
    if question.sweep and (not question.sweep.values or min(question.sweep.values) < 1):
        raise UsageError("a sweep needs values of 1 or more", where=question.sweep.parameter, hint="e.g. 1..64")
    try:
        for variant in question.variants:
            scenario.resolve(variant, "sim")
    except ScenarioError as error:
        raise UsageError(str(error), where="--variant", hint=f"`{commands.SCENARIOS}` lists them") from None


def answer_fit(question: FitQuery, scenario: Scenario, stacks: Sequence[Stack], run: MeasureCells) -> FitAnswer:
    """Simulate and judge the cells that the answer needs. Raise UsageError as `check` does, and what ``run`` raises."""
    check_fit_query(question, scenario)
    run = recorded = Recorded(run)
    lines = _swept(question, scenario, stacks, run) if question.sweep else _scaled(question, scenario, stacks, run)
    order = {name: at for at, name in enumerate([c.name for c in question.cards] + [s.id for s in stacks])}
    at = {variant: number for number, variant in enumerate(question.variants)}
    lines = sorted(
        lines, key=lambda one: (order[one.card], order[one.stack], at[one.variant], one.ranks, one.value or 0)
    )
    return FitAnswer(
        question=question,
        stacks=tuple(stacks),
        lines=tuple(lines),
        smallest={} if question.sweep else {card.name: _smallest(card, stacks, lines) for card in question.cards},
        break_points=tuple(_break_points(question, lines)) if question.sweep else (),
        measured_by=measured_by(recorded.results),
        notes=provenance_notes(recorded.results),
    )


def first_cells(question: FitQuery, scenario: Scenario, stack: Stack) -> list[Cell]:
    """Return the cells of a stack that an answer begins with: all of them, or those of a sweep's smallest value."""
    value = min(question.sweep.values) if question.sweep else None
    return [
        cell(question, scenario, stack, ranks, value, variant)
        for variant in question.variants
        for ranks in question.ranks
    ]


def cell(
    question: FitQuery,
    scenario: Scenario,
    stack: Stack,
    ranks: int,
    value: int | None = None,
    variant: str | None = None,
) -> Cell:
    """Return the simulated cell of one point, spelled out as a variant: ``world_size=64,layers=40``."""
    variant = question.variant if variant is None else variant
    changes: dict[str, Any] = {"world_size": ranks}
    if question.sweep is not None and value is not None:
        changes[question.sweep.parameter] = value
    named = parse_variant(variant, scenario.parameters)
    return Cell(
        stack=stack,
        scenario=question.scenario,
        scenario_version=scenario.version,
        variant=variant_id({**named, **changes}),
        device="sim",
        framework=scenario.framework,
        parameters=scenario.resolve(variant, "sim", changes),
    )


def judge_cell(
    question: FitQuery, card: Card, result: Result, value: int | None = None, variant: str | None = None
) -> FitLine:
    """Judge one simulated cell on one card. ``value`` is that of the parameter that is swept."""
    parameters = result.cell.parameters
    ranks = int(parameters["world_size"])
    record = result.record
    phases: Mapping[str, PhaseReading] = {}
    if record is not None and record.ranks and isinstance(result.outcome, Passed):
        phases = max(
            (rank.phases for rank in record.ranks), key=lambda of: max(needed_bytes(of)[0].values(), default=0)
        )
    peaks, counted = needed_bytes(phases)
    allocated = {phase: reading.device_peak_bytes for phase, reading in phases.items()}
    found = verdict(card, parameters, allocated, peaks, question.overhead_bytes, question.gpus_per_node)
    worst = max(peaks, key=lambda phase: peaks[phase]) if peaks else ""
    dtype = str(parameters.get("dtype", "bf16"))
    measured = record.ranks if phases and record is not None else ()
    ideal = record.ranks[0].ideal.get(DEVICE_RETAINED.flat_name("step"), {}) if phases and record is not None else {}
    state_bytes = ideal.get("master", 0) + ideal.get("optimizer", 0)
    of_a_step = {p: phases[p] for p in STEP_PHASES if p in phases} if "step" in phases else {}  # inference has none
    return FitLine(
        stack=result.cell.stack.id,
        card=card.name,
        ranks=ranks,
        value=value,
        cell=result.cell.id,
        variant=question.variant if variant is None else variant,
        outcome=result.outcome,
        peak_bytes=found.peak_bytes if worst else None,
        peak_phase=worst,
        counted=counted,
        held_after_backward_bytes=phases["backward"].device_retained_bytes if "backward" in phases else None,
        host_bytes_per_node=host_bytes_per_node(measured, min(ranks, question.gpus_per_node)),
        available_bytes=found.available_bytes,
        reserved_bytes=reserved_range(phases),
        taken_bytes=taken_bytes(card, parameters),
        sent_bytes=sum(size for reading in of_a_step.values() for _, size in reading.collectives.values()),
        traffic=traffic(of_a_step.values(), question.gpus_per_node),
        fails_in=found.fails_in,
        overhead_bytes=found.overhead_bytes,
        spans_nodes=found.spans_nodes,
        bounds=step_time.step_bound(
            of_a_step,
            card,
            dtype,
            ranks,
            gpus_per_node=question.gpus_per_node,
            network_gbits_per_gpu=question.network_gbits_per_gpu,
            state_bytes=state_bytes,
        ),
        estimated_step_s=_estimated_step_s(question, card, of_a_step, dtype, ranks),
        dtype_note=card.without(dtype),
    )


def _estimated_step_s(
    question: FitQuery, card: Card, phases: Mapping[str, PhaseReading], dtype: str, ranks: int
) -> float | None:
    network, gpus_per_node = question.network_gbits_per_gpu, question.gpus_per_node
    lines = estimate.rooflines(phases, card, dtype, ranks, gpus_per_node=gpus_per_node, network_gbits_per_gpu=network)
    return estimate.seconds(lines, card)


def _scaled(question: FitQuery, scenario: Scenario, stacks: Sequence[Stack], run: MeasureCells) -> list[FitLine]:
    cells = [
        (cell(question, scenario, stack, ranks, variant=variant), variant)
        for stack in stacks
        for variant in question.variants
        for ranks in question.ranks
    ]
    newest = {result.cell.id: result for result in run(list({one.id: one for one, _ in cells}.values()))}
    return [
        judge_cell(question, card, newest[one.id], variant=variant)
        for card in question.cards
        for one, variant in cells
        if one.id in newest
    ]


def _swept(question: FitQuery, scenario: Scenario, stacks: Sequence[Stack], run: MeasureCells) -> list[FitLine]:
    """Search every card, stack, variant and scale. All searches advance together, one step at a time: a cell that several of
    them need is simulated once, and stacks are simulated in parallel."""
    assert question.sweep is not None
    values = sorted(set(question.sweep.values))
    searches = {
        (card.name, stack.id, variant, ranks): LargestFitting(len(values))
        for card in question.cards
        for stack in stacks
        for variant in question.variants
        for ranks in question.ranks
    }
    by_id = {stack.id: stack for stack in stacks}
    cards = {card.name: card for card in question.cards}
    lines: list[FitLine] = []
    while wanted := {key: at for key, search in searches.items() if (at := search.next()) is not None}:
        points = {
            key: cell(question, scenario, by_id[key[1]], key[3], values[index], key[2]) for key, index in wanted.items()
        }
        newest = {result.cell.id: result for result in run(list({one.id: one for one in points.values()}.values()))}
        for key, index in wanted.items():
            line = judge_cell(question, cards[key[0]], newest[points[key].id], values[index], key[2])
            searches[key].record(index, line.fits)
            lines.append(line)
    return lines


def _smallest(card: Card, stacks: Sequence[Stack], lines: Sequence[FitLine]) -> dict[str, int | None]:
    return {
        stack.id: min(
            (
                one.ranks
                for one in lines
                if (one.card, one.stack, one.variant) == (card.name, stack.id, lines[0].variant) and one.fits
            ),
            default=None,
        )
        for stack in stacks
    }


def _break_points(question: FitQuery, lines: Sequence[FitLine]) -> Iterable[BreakPoint]:
    assert question.sweep is not None
    together: dict[tuple[str, str, str, int], list[FitLine]] = {}
    for line in lines:
        together.setdefault((line.card, line.stack, line.variant, line.ranks), []).append(line)
    for (card, stack, variant, ranks), members in together.items():
        fitting = [one for one in members if one.fits]
        failing = min((one for one in members if not one.fits), key=lambda one: one.value or 0, default=None)
        yield BreakPoint(
            stack=stack,
            card=card,
            ranks=ranks,
            parameter=question.sweep.parameter,
            largest_fitting=max((one.value or 0 for one in fitting), default=None),
            first_failing=None if failing is None else failing.value,
            reason="" if failing is None else reason(failing),
            variant=variant,
        )


def reason(line: FitLine) -> str:
    """Return why a line does not fit, in a few words; ``fits`` if it does."""
    if line.fits:
        return "fits"
    if line.fails_in:
        return f"out of memory in {line.fails_in}"
    return "not simulated"
