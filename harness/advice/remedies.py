"""What each remedy buys: the unmodified case, each remedy alone, and the best combination, all of them real runs.

Pure but for ``run``, which measures cells. What counts is the peak of the worst phase: bytes that the device must have,
by the model of the allocator where there is one. The combination is searched greedily: the remedies that lower the peak
alone, the strongest first, each kept on top of those before it if the peak falls further. That is not every
combination, and a better one may exist; what is told of a combination is measured, never a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from harness.advice import fit
from harness.advice.gpus import Card, step_time
from harness.advice.provenance import MeasuredBy, Recorded, measured_by
from harness.errors import UsageError
from harness.model import Cell, Outcome, Passed, Result, Stack, stack_label
from harness.probe.border.wire import PHASES, PhaseReading
from harness.probe.scenario import Scenario, ScenarioError, parse_variant, variant_id
from harness.wording import commands

Run = Callable[[Sequence[Cell]], Iterable[Result]]

#: A share of the unmodified peak. Less than this is told and is no help.
MATTERS = 0.01
#: Letters of a combination's variant, which names the file of its result (see `harness.store`).
_MOST_LETTERS = 180


class RemediesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked."""

    scenario: str
    variant: str
    device: str
    card: Card | None = None  #: None: nothing is said about fitting
    ranks: int | None = None  #: None: the scenario's
    overhead_bytes: int = fit.OVERHEAD_BYTES
    gpus_per_node: int = step_time.GPUS_PER_NODE
    network_gbits_per_gpu: float = step_time.NETWORK_GBITS_PER_GPU


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of the worst rank."""

    device_peak_bytes: int
    device_retained_bytes: int
    host_peak_bytes: int
    host_retained_bytes: int
    flops: int
    communicated_bytes: int  #: messages of the collectives, in the convention of `harness.probe.meters.operators`
    seconds: float | None  #: measured; None in ``sim``


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: the unmodified case, one remedy, or several together."""

    remedies: tuple[str, ...]  #: by name; empty: the unmodified case
    changes: dict[str, Any]  #: of parameters
    versions: dict[str, str]  #: of packages
    stack: str
    cell: str
    outcome: Outcome
    phases: dict[str, Phase]  #: empty where it did not run to its end
    peak_bytes: int | None  #: of the worst phase
    peak_phase: str
    counted: str  #: ``reserved`` where an allocator exists or is modelled, else ``allocated``
    step_s: float | None  #: median of the timed rounds; None in ``sim``
    least_step_s: float | None  #: a model: see `harness.advice.gpus.step_time`; None where it says nothing
    available_bytes: int | None  #: on the card; None without one
    taken_bytes: int  #: of the card by what runs beside the job
    fails_in: str  #: the first phase that the card has no room for
    dtype_note: str  #: what the card says to the case's dtype; empty where it computes in it

    @property
    def headroom_bytes(self) -> int | None:
        if self.peak_bytes is None or self.available_bytes is None:
            return None
        return self.available_bytes - self.peak_bytes

    @property
    def fits(self) -> bool | None:
        """None where nothing can be said: no card, or no peak."""
        return None if self.headroom_bytes is None else not self.fails_in

    @property
    def flops(self) -> int:
        """Of one rank's step."""
        return sum(phase.flops for phase in self.phases.values())

    @property
    def communicated_bytes(self) -> int:
        """Of one rank's step."""
        return sum(phase.communicated_bytes for name, phase in self.phases.items() if name != "init")

    @property
    def host_peak_bytes(self) -> int | None:
        """Of one rank."""
        return max((phase.host_peak_bytes for phase in self.phases.values()), default=None)

    @property
    def name(self) -> str:
        return " + ".join(self.remedies) or "unmodified"


class NotTried(msgspec.Struct, frozen=True):
    """A remedy that was not run, and why."""

    name: str
    reason: str


class RemediesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found out about one stack."""

    question: RemediesQuery
    stack: Stack
    base: Case
    alone: tuple[Case, ...]  #: in the order of their declaration, releases last
    tried: tuple[Case, ...]  #: combinations, in the order of the search
    best: Case | None  #: the combination with the lowest peak; None where no two remedies help more than one
    not_tried: tuple[NotTried, ...]
    measured_by: tuple[MeasuredBy, ...] = ()

    @property
    def fitting(self) -> tuple[Case, ...]:
        """The cases that fit with the fewest remedies."""
        found = [case for case in (*self.alone, *self.tried) if case.fits]
        fewest = min((len(case.remedies) for case in found), default=0)
        return tuple(case for case in found if len(case.remedies) == fewest)


def check(question: RemediesQuery, scenario: Scenario) -> None:
    """Raises UsageError for what cannot be answered, before anything is started."""
    if not scenario.remedies and not scenario.pins:
        raise UsageError(
            "declares no remedies", where=question.scenario, hint="docs/add-a-scenario.md shows how it names some"
        )
    try:
        parameters = scenario.resolve(question.variant, question.device)
    except ScenarioError as error:
        raise UsageError(str(error), where=question.scenario, hint=f"`{commands.SCENARIOS}` lists them") from None
    if question.ranks is not None and "world_size" not in parameters:
        raise UsageError("has no parameter world_size", where=question.scenario, hint="leave out --ranks")


def pinned_stacks(stack: Stack, scenario: Scenario) -> dict[str, Stack]:
    """Name of a remedy -> the stack with that release, where it is another than this one has."""
    found = {}
    for name, versions in scenario.pins.items():
        label = stack_label(stack.named, name)
        other = msgspec.structs.replace(stack, versions={**stack.versions, **versions}, label=label)
        if other.id != stack.id:
            found[name] = other
    return found


def answer(question: RemediesQuery, scenario: Scenario, stack: Stack, run: Run) -> RemediesAnswer:
    """Runs what is needed and judges it. Raises UsageError, and whatever ``run`` raises."""
    check(question, scenario)
    run = recorded = Recorded(run)
    applicable, not_tried = _applicable(question, scenario)
    pins = pinned_stacks(stack, scenario)
    not_tried += [NotTried(name, "this release it is already") for name in scenario.pins if name not in pins]
    cells = first_cells(question, scenario, stack)
    newest = {result.cell.id: result for result in run(list(cells.values()))}
    cases = {
        names: judge(question, newest[cell.id], names, applicable.get(names[0], {}) if names else {})
        for names, cell in cells.items()
    }
    cases = {
        names: msgspec.structs.replace(case, versions=dict(scenario.pins[names[0]]))
        if names and names[0] in pins
        else case
        for names, case in cases.items()
    }
    base = cases.pop(())
    search = Greedy(base, [cases[(name,)] for name in applicable])
    for together in search:
        changes = {key: value for name in together for key, value in applicable[name].items()}
        (result,) = run([_cell(question, scenario, stack, changes)])
        search.tell(judge(question, result, together, changes))
    return RemediesAnswer(
        question=question,
        stack=stack,
        base=base,
        alone=tuple(cases.values()),
        tried=tuple(search.tried),
        best=search.best if len(search.best.remedies) > 1 else None,
        not_tried=tuple(not_tried),
        measured_by=measured_by(recorded.results),
    )


def first_cells(question: RemediesQuery, scenario: Scenario, stack: Stack) -> dict[tuple[str, ...], Cell]:
    """The cells that an answer begins with, by the names of their remedies: the unmodified one, and each remedy alone."""
    applicable, _ = _applicable(question, scenario)
    pins = pinned_stacks(stack, scenario)
    cells: dict[tuple[str, ...], Cell] = {(): _cell(question, scenario, stack, {})}
    cells |= {(name,): _cell(question, scenario, stack, changes) for name, changes in applicable.items()}
    cells |= {(name,): _cell(question, scenario, pinned, {}) for name, pinned in pins.items()}
    return cells


class Greedy:
    """The search for the best combination: iterate over what to run, and tell what came of each."""

    def __init__(self, base: Case, alone: Sequence[Case]) -> None:
        self._base = base
        self._helping = sorted((case for case in alone if _saves(base, case)), key=shortage_bytes)
        self.best = self._helping[0] if self._helping else base  #: so far
        self.tried: list[Case] = []

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        for case in self._helping[1:]:
            changes = self.best.changes
            contradicts = any(changes.get(name, value) != value for name, value in case.changes.items())
            adds = {**changes, **case.changes}
            if contradicts or adds == changes or len(variant_id(adds)) > _MOST_LETTERS:
                continue
            same = next((one for one in self._helping if one.changes == adds), None)
            if same is None:  # else it was measured under its own name
                yield (*self.best.remedies, *case.remedies)

    def tell(self, case: Case) -> None:
        self.tried.append(case)
        if _saves(self.best, case, of=self._base):
            self.best = case


def saved_bytes(base: Case, case: Case) -> int | None:
    """By which the peak is lower; None where one of them has none."""
    if base.peak_bytes is None or case.peak_bytes is None:
        return None
    return base.peak_bytes - case.peak_bytes


def gained_bytes(base: Case, case: Case) -> int | None:
    """By which the card has more room: the peak is lower, or more of the card is left to the job. None where one has no
    peak."""
    if base.peak_bytes is None or case.peak_bytes is None:
        return None
    return shortage_bytes(base) - shortage_bytes(case)


def shortage_bytes(case: Case) -> int:
    """What is wanting on the card; below 0 where something is to spare. Without a card, the peak."""
    return (case.peak_bytes or 0) - (case.available_bytes or 0)


def _saves(before: Case, case: Case, of: Case | None = None) -> bool:
    """Whether a case makes room by what matters. One that runs where the other does not, helps."""
    if case.peak_bytes is None:
        return False
    gained = gained_bytes(before, case)
    return gained is None or gained >= MATTERS * ((of or before).peak_bytes or 0) > 0


def _applicable(question: RemediesQuery, scenario: Scenario) -> tuple[dict[str, Mapping[str, Any]], list[NotTried]]:
    """The remedies that say something here, and why the others do not."""
    here = _parameters(question, scenario)
    scaled = scenario.devices[question.device]
    applicable: dict[str, Mapping[str, Any]] = {}
    not_tried = []
    for name, changes in scenario.remedies.items():
        if all(here[parameter] == value for parameter, value in changes.items()):
            not_tried.append(NotTried(name, "so it is already"))
        elif own := [parameter for parameter in changes if parameter in scaled]:
            not_tried.append(
                NotTried(name, f"on {question.device} the scenario has a size of its own: {', '.join(own)}")
            )
        else:
            applicable[name] = changes
    return applicable, not_tried


def _parameters(question: RemediesQuery, scenario: Scenario) -> dict[str, Any]:
    """Of the unmodified case."""
    return scenario.resolve(question.variant, question.device, _scale(question))


def _scale(question: RemediesQuery) -> dict[str, Any]:
    return {} if question.ranks is None else {"world_size": question.ranks}


def _cell(question: RemediesQuery, scenario: Scenario, stack: Stack, changes: Mapping[str, Any]) -> Cell:
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


def judge(question: RemediesQuery, result: Result, names: tuple[str, ...], changes: Mapping[str, Any]) -> Case:
    """One cell as a case."""
    record = result.record
    simulated = result.cell.device == "sim"
    phases: dict[str, Phase] = {}
    if record is not None and isinstance(result.outcome, Passed):
        readings = {p: [rank.phases[p] for rank in record.ranks if p in rank.phases] for p in PHASES}
        phases = {p: _phase(found, simulated=simulated) for p, found in readings.items() if found}
    worst = max(phases, key=lambda p: phases[p].device_peak_bytes, default="")
    line = None
    if question.card is not None and result.cell.device != "cpu":
        about = fit.FitQuery(
            scenario=question.scenario,
            variant=question.variant,
            cards=(question.card,),
            ranks=(),
            overhead_bytes=question.overhead_bytes,
            gpus_per_node=question.gpus_per_node,
            network_gbits_per_gpu=question.network_gbits_per_gpu,
        )
        line = fit.judge(about, question.card, result)
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
        dtype_note=question.card.without(dtype) if question.card else "",
    )


def _phase(readings: Sequence[PhaseReading], *, simulated: bool) -> Phase:
    """The worst rank's figure of each kind."""
    return Phase(
        device_peak_bytes=max(one.device_peak_bytes for one in readings),
        device_retained_bytes=max(one.device_retained_bytes for one in readings),
        host_peak_bytes=max(one.host_peak_bytes for one in readings),
        host_retained_bytes=max(one.host_retained_bytes for one in readings),
        flops=max(one.flops for one in readings),
        communicated_bytes=max(sum(size for _, size in one.collectives.values()) for one in readings),
        seconds=None if simulated else max(one.seconds for one in readings),
    )
