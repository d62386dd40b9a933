"""The benefit of each remedy: the unmodified case, each remedy alone, and the best combination, all of them real runs.

Pure but for ``run``, which measures cells. The peak of the worst phase counts: bytes that the device must have, by the
model of the allocator if there is one. Figures of a combination are measured, never a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from dsregress.advice import card_fit
from dsregress.advice.cases import Case, PhaseFigures
from dsregress.advice.certainty import OVERHEAD_BYTES
from dsregress.advice.combination import CombinationSearch
from dsregress.advice.gpus import Card, step_time
from dsregress.advice.provenance import MeasureCells, MeasuredBy, Recorded, measured_by, provenance_notes
from dsregress.errors import UsageError
from dsregress.model import Cell, Passed, Result, Stack, stack_label
from dsregress.probe.border.wire import PHASES
from dsregress.probe.scenario import Scenario, ScenarioError, parse_variant, variant_id
from dsregress.wording import commands
from vgpu.figures import PhaseReading


class RemediesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The workload whose remedies are measured, its device mode, and the card that they should fit."""

    scenario: str
    variant: str
    device: str
    card: Card | None = None  #: None: nothing is said about fitting
    ranks: int | None = None  #: None: the scenario's
    overhead_bytes: int = OVERHEAD_BYTES
    gpus_per_node: int = step_time.GPUS_PER_NODE
    network_gbits_per_gpu: float = step_time.NETWORK_GBITS_PER_GPU


class NotTried(msgspec.Struct, frozen=True):
    """A remedy that was not run, and why."""

    name: str
    reason: str


class RemediesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of the remedies on one stack."""

    question: RemediesQuery
    stack: Stack
    base: Case
    alone: tuple[Case, ...]  #: in the order of their declaration, releases last
    tried: tuple[Case, ...]  #: combinations, in the order of the search
    best: Case | None  #: the combination with the lowest peak; None if no two remedies help more than one
    not_tried: tuple[NotTried, ...]
    measured_by: tuple[MeasuredBy, ...] = ()
    notes: tuple[str, ...] = ()  #: what a reader of the figures has to know

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return every case that was run."""
        return (self.base, *self.alone, *self.tried)

    @property
    def fitting(self) -> tuple[Case, ...]:
        """Return the cases that fit with the fewest remedies."""
        found = [case for case in (*self.alone, *self.tried) if case.fits]
        fewest = min((len(case.remedies) for case in found), default=0)
        return tuple(case for case in found if len(case.remedies) == fewest)


def check_remedy_query(question: RemediesQuery, scenario: Scenario) -> None:
    """Raise UsageError if the query cannot be answered, before anything is started."""
    if not scenario.remedies and not scenario.pins:
        raise UsageError(
            "declares no remedies", where=question.scenario, hint="docs/add-a-scenario.md shows how to declare some"
        )
    try:
        parameters = scenario.resolve(question.variant, question.device)
    except ScenarioError as error:
        raise UsageError(str(error), where=question.scenario, hint=f"`{commands.SCENARIOS}` lists them") from None
    if question.ranks is not None and "world_size" not in parameters:
        raise UsageError("has no parameter world_size", where=question.scenario, hint="leave out --ranks")


def pinned_stacks(stack: Stack, scenario: Scenario) -> dict[str, Stack]:
    """Return the name of a remedy -> the stack with its release, unless the stack has it already, or cannot install it."""
    found: dict[str, Stack] = {}
    if stack.existed:
        return found
    for name, versions in scenario.pins.items():
        label = stack_label(stack.named, name)
        other = msgspec.structs.replace(stack, versions={**stack.versions, **versions}, label=label)
        if other.id != stack.id:
            found[name] = other
    return found


def answer_remedies(question: RemediesQuery, scenario: Scenario, stack: Stack, run: MeasureCells) -> RemediesAnswer:
    """Run and judge the cells that the answer needs. Raise UsageError as `check` does, and what ``run`` raises."""
    check_remedy_query(question, scenario)
    run = recorded = Recorded(run)
    applicable, not_tried = _applicable(question, scenario)
    pins = pinned_stacks(stack, scenario)
    why = "nothing is installed into an interpreter that existed" if stack.existed else "already this release"
    not_tried += [NotTried(name, why) for name in scenario.pins if name not in pins]
    cells = first_cells(question, scenario, stack)
    newest = {result.cell.id: result for result in run(list(cells.values()))}
    cases = {
        names: judge_case(question, newest[cell.id], names, applicable.get(names[0], {}) if names else {})
        for names, cell in cells.items()
    }
    cases = {
        names: msgspec.structs.replace(case, versions=dict(scenario.pins[names[0]]))
        if names and names[0] in pins
        else case
        for names, case in cases.items()
    }
    base = cases.pop(())
    search = CombinationSearch(base, [cases[(name,)] for name in applicable])
    for together in search:
        changes = {key: value for name in together for key, value in applicable[name].items()}
        (result,) = run([_changed_cell(question, scenario, stack, changes)])
        search.add(judge_case(question, result, together, changes))
    return RemediesAnswer(
        question=question,
        stack=stack,
        base=base,
        alone=tuple(cases.values()),
        tried=tuple(search.tried),
        best=search.best if len(search.best.remedies) > 1 else None,
        not_tried=tuple(not_tried),
        measured_by=measured_by(recorded.results),
        notes=provenance_notes(recorded.results),
    )


def first_cells(question: RemediesQuery, scenario: Scenario, stack: Stack) -> dict[tuple[str, ...], Cell]:
    """Return the cells that an answer begins with, by the names of their remedies: the unmodified one, and each remedy
    alone."""
    applicable, _ = _applicable(question, scenario)
    pins = pinned_stacks(stack, scenario)
    cells: dict[tuple[str, ...], Cell] = {(): _changed_cell(question, scenario, stack, {})}
    cells |= {(name,): _changed_cell(question, scenario, stack, changes) for name, changes in applicable.items()}
    cells |= {(name,): _changed_cell(question, scenario, pinned, {}) for name, pinned in pins.items()}
    return cells


def _applicable(question: RemediesQuery, scenario: Scenario) -> tuple[dict[str, Mapping[str, object]], list[NotTried]]:
    """Return the changes of the remedies that have an effect here, and the other remedies with their reasons."""
    here = _unmodified_parameters(question, scenario)
    scaled = scenario.devices[question.device]
    applicable: dict[str, Mapping[str, Any]] = {}
    not_tried = []
    for name, changes in scenario.remedies.items():
        if all(here[parameter] == value for parameter, value in changes.items()):
            not_tried.append(NotTried(name, "already set"))
        elif own := [parameter for parameter in changes if parameter in scaled]:
            not_tried.append(NotTried(name, f"on {question.device} the scenario fixes {', '.join(own)}"))
        else:
            applicable[name] = changes
    return applicable, not_tried


def _unmodified_parameters(question: RemediesQuery, scenario: Scenario) -> dict[str, object]:
    """Return the parameters of the unmodified case."""
    return scenario.resolve(question.variant, question.device, _scale(question))


def _scale(question: RemediesQuery) -> dict[str, Any]:
    return {} if question.ranks is None else {"world_size": question.ranks}


def _changed_cell(question: RemediesQuery, scenario: Scenario, stack: Stack, changes: Mapping[str, object]) -> Cell:
    declared = {variant_id(v): v for v in (*scenario.remedies.values(), *scenario.variants)}
    named = declared.get(question.variant) or parse_variant(question.variant, scenario.parameters)
    changed = {**_scale(question), **changes}
    return Cell(
        stack=stack,
        scenario=question.scenario,
        scenario_version=scenario.version,
        variant=variant_id({**named, **changed}),
        device=question.device,
        framework=scenario.framework,
        parameters=scenario.resolve(question.variant, question.device, changed),
    )


def judge_case(question: RemediesQuery, result: Result, names: tuple[str, ...], changes: Mapping[str, object]) -> Case:
    """Return one cell's result as a case."""
    record = result.record
    simulated = result.cell.device == "sim"
    phases: dict[str, PhaseFigures] = {}
    if record is not None and isinstance(result.outcome, Passed):
        readings = {p: [rank.phases[p] for rank in record.ranks if p in rank.phases] for p in PHASES}
        phases = {p: _phase(found, simulated=simulated) for p, found in readings.items() if found}
    worst = max(phases, key=lambda p: phases[p].device_peak_bytes, default="")
    line = None
    if question.card is not None and result.cell.device != "cpu":
        about = card_fit.FitQuery(
            scenario=question.scenario,
            variant=question.variant,
            cards=(question.card,),
            ranks=(),
            overhead_bytes=question.overhead_bytes,
            gpus_per_node=question.gpus_per_node,
            network_gbits_per_gpu=question.network_gbits_per_gpu,
        )
        line = card_fit.judge_cell(about, question.card, result)
    dtype = str(result.cell.parameters.get("dtype", ""))
    return Case(
        remedies=names,
        changes=dict(changes),
        versions={},
        stack=result.cell.stack.id,
        cell=result.cell.id,
        outcome=result.outcome,
        phases=phases,
        peak_bytes=line.peak_bytes if line else phases[worst].device_peak_bytes if worst else None,
        peak_phase=line.peak_phase if line else worst,
        counted=line.counted if line else "allocated",
        step_s=median(record.round_s) if record is not None and record.round_s else None,
        least_step_s=line.least_step_s if line and simulated else None,
        available_bytes=line.available_bytes if line else None,
        taken_bytes=line.taken_bytes if line else 0,
        fails_in=line.fails_in if line else "",
        verdict=line.verdict if line and line.peak_bytes is not None else "",
        dtype_note=question.card.without(dtype) if question.card else "",
        not_of_the_step=("init", *(record.ranks[0].earlier if record is not None and record.ranks else ())),
    )


def _phase(readings: Sequence[PhaseReading], *, simulated: bool) -> PhaseFigures:
    """Return the worst rank's figure of each kind."""
    return PhaseFigures(
        device_peak_bytes=max(one.device_peak_bytes for one in readings),
        device_retained_bytes=max(one.device_retained_bytes for one in readings),
        host_peak_bytes=max(one.host_peak_bytes for one in readings),
        host_retained_bytes=max(one.host_retained_bytes for one in readings),
        flops=max(one.flops for one in readings),
        communicated_bytes=max(sum(size for _, size in one.collectives.values()) for one in readings),
        seconds=None if simulated else max(one.seconds for one in readings),
    )
