"""Cells -> the holders of their memory, and the evidence that findings take from them.

An explanation is a separate untimed run, stored with the results under the content key of the cell, so that explaining it
again costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

import msgspec

from dsregress.advice import attribution, gpus
from dsregress.advice.capacity import available_bytes
from dsregress.compare import Comparison, Group
from dsregress.launch.contract import Cluster, Ended, RunPlan
from dsregress.launch.schedule import Finished, log_event
from dsregress.launch.untimed import run_parallel
from dsregress.model import AXES, Cell, Environment, Failed, Finding, Hardware, MachineFault, Passed, Result
from dsregress.probe.border.wire import Explanation
from dsregress.store import Explanations, key_in
from dsregress.wording import commands
from dsregress.wording.names import outcome_text

#: Seconds. Simulated cells whose run took longer are explained only on request: an explanation takes
#: about as long as the simulation did. The small cells of the other modes take a second or two.
MOST_UNREQUESTED_S = 10.0


class ExplainContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that explaining cells needs."""

    cluster: Cluster
    environments: Mapping[str, Environment]  #: by stack id
    hardware: Hardware
    explanations: Explanations

    def environment(self, cell: Cell) -> Environment:
        """Return the environment of a cell."""
        return self.environments[cell.environment_stack.id]

    def key(self, cell: Cell) -> str:
        """Return the content key of a cell's runs."""
        return key_in(self.environment(cell), cell, hardware=self.hardware)


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of one cell, or the reason why it has none."""

    cell: Cell
    explanation: Explanation | None
    why_not: str = ""  #: one line, if it has no explanation


def explain_cells(
    cells: Sequence[Cell],
    context: ExplainContext,
    *,
    fresh: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Explained]:
    """Return cell id -> its explanation, from the store or from a run made now and stored.

    Raise ResultsError if one cannot be stored, KeyboardInterrupt.
    """
    found: dict[str, Explained] = {}
    missing: list[Cell] = []
    for cell in dict.fromkeys(cells):
        stored = None if fresh else context.explanations.read(context.key(cell))
        if stored is None:
            missing.append(cell)
        elif not stored.moments:
            found[cell.id] = Explained(cell=cell, explanation=None, why_not=stored.note)
        else:
            found[cell.id] = Explained(cell=cell, explanation=stored)
    for cell in missing:
        report(f"finding what holds the memory of {cell.id}")
    for explained in _run_explanations(missing, context):
        found[explained.cell.id] = explained
        if explained.explanation is None:
            report(f"no explanation of the memory of {explained.cell.id}: {explained.why_not}")
    return {cell.id: found[cell.id] for cell in dict.fromkeys(cells)}


def attach(
    comparison: Comparison,
    context: Callable[[], ExplainContext],
    *,
    all_cells: bool,
    report: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Return the comparison with the places that hold the bytes as evidence of its memory findings.

    For each workload the first of the releases that hold most is explained, together with the baseline; the other findings
    refer to it. Without ``all_cells``, cells that take long to simulate (`MOST_UNREQUESTED_S`) are left out. ``context`` is
    called only if a cell must be explained.
    """
    chosen = _cells_to_explain(_results_to_explain(comparison))
    slow = _slow_simulations(comparison, chosen)
    wanted = [pair for workload, pair in chosen.items() if all_cells or workload not in slow]
    explained: dict[str, Explained] = {}
    if wanted:
        here = context()
        cells = [cell for pair in wanted for cell in pair if cell.environment_stack.id in here.environments]
        explained = explain_cells(cells, here, report=report)
    return _with_evidence(comparison, chosen, slow, {id: found.explanation for id, found in explained.items()})


def attach_stored(comparison: Comparison, explained: Callable[[Result], Explanation | None]) -> Comparison:
    """Do the same as `attach`, from stored explanations, without running anything. Findings without one stay unchanged; only
    those of a long simulation show how to explain it. ``explained`` is from `dsregress.store.explained_in`."""
    chosen = _results_to_explain(comparison)
    stored = {result.cell.id: explained(result) for pair in chosen.values() for result in pair}
    slow = _slow_simulations(comparison, chosen)
    cells = {
        workload: pair
        for workload, pair in _cells_to_explain(chosen).items()
        if stored[pair[0].id] is not None or workload in slow
    }
    return _with_evidence(comparison, cells, slow, stored)


def _with_evidence(
    comparison: Comparison,
    chosen: Mapping[str, tuple[Cell, Cell]],
    slow: Set[str],
    explained: Mapping[str, Explanation | None],
) -> Comparison:
    if not chosen:
        return comparison

    def with_evidence(found: Finding) -> Finding:
        pair = chosen.get(found.workload)
        if pair is None or not is_explainable(found):
            return found
        mine, theirs = (explained.get(cell.id) for cell in pair)
        if mine is None and found.workload in slow:  # on request only, so the finding says how
            return msgspec.structs.replace(found, evidence=(*found.evidence, _how_to_explain(comparison, pair)))
        if mine is None or not mine.moments:
            return found
        more = attribution.evidence(mine, theirs, attribution.moment_of(found.metric, found.phase))
        if found.cell != pair[0].id:
            more = tuple(f"in {comparison.names[pair[0].stack.id]}, {line}" for line in more)
        return msgspec.structs.replace(found, evidence=(*found.evidence, *more))

    groups = tuple(
        Group(with_evidence(group.headline), tuple(map(with_evidence, group.related))) for group in comparison.groups
    )
    return comparison.with_groups(groups)


def _how_to_explain(comparison: Comparison, pair: tuple[Cell, Cell]) -> str:
    """Return ``who holds it: dsregress explain 0.16.0/SCENARIO/VARIANT/sim --against 0.15.0``."""
    names = [comparison.names[cell.stack.id] for cell in pair]
    if any(
        name != cell.stack.versions.get("deepspeed") or not cell.stack.versions.keys() <= set(AXES)
        for name, cell in zip(names, pair, strict=True)
    ):
        names = [cell.stack.id for cell in pair]
    return f"who holds it: {commands.explain(f'{names[0]}/{pair[0].workload}', names[1])}"


def is_explainable(found: Finding) -> bool:
    """Return True if the finding says that memory is worse, in a way that matters."""
    return (
        found.relevant
        and found.kind in ("regression", "wrong")
        and attribution.moment_of(found.metric, found.phase) != ""
    )


def _cells_to_explain(chosen: Mapping[str, tuple[Result, Result]]) -> dict[str, tuple[Cell, Cell]]:
    return {workload: (mine.cell, theirs.cell) for workload, (mine, theirs) in chosen.items()}


def _results_to_explain(comparison: Comparison) -> dict[str, tuple[Result, Result]]:
    """Return workload -> the result whose cell is to be explained, and the baseline's."""
    order = {stack.id: at for at, stack in enumerate(comparison.stacks)}
    worst: dict[str, Finding] = {}
    for found in comparison.findings:
        if not is_explainable(found) or found.stack == comparison.baseline:
            continue
        workload = found.workload
        other = worst.get(workload)
        if other is None or _rank(found, order) < _rank(other, order):
            worst[workload] = found
    chosen = {}
    for workload, found in worst.items():
        mine = comparison.cells.of(found.stack, workload)
        baseline = comparison.cells.of(comparison.baseline, workload)
        if mine is not None and baseline is not None:
            chosen[workload] = (mine.result, baseline.result)
    return chosen


def _rank(found: Finding, order: Mapping[str, int]) -> tuple[float, int]:
    """Return the sort key of a finding: the largest increase first, and among equals the oldest release."""
    return -float(found.value - (found.baseline_value or 0)), order[found.stack]


def _slow_simulations(comparison: Comparison, workloads: Iterable[str]) -> set[str]:
    """Return the workloads that take long to simulate."""
    return {w for w in workloads if w.endswith("/sim") and comparison.longest_s[w] > MOST_UNREQUESTED_S}


def _run_explanations(cells: Sequence[Cell], context: ExplainContext) -> Iterator[Explained]:
    """Explain cells, and store and yield each explanation as its cell ends."""
    runnable = []
    for cell in cells:
        failure = context.environment(cell).failure
        if failure is None:
            runnable.append(cell)
        else:
            yield Explained(cell=cell, explanation=None, why_not=failure.signature)
    try:
        for event in run_parallel(context.cluster, runnable, context.environment, _explaining_plan):
            log_event(event)
            if isinstance(event, Finished):
                yield _explanation_of_end(event.cell, event.ended, context)
    finally:
        context.cluster.close()  # ends what still runs, on an interruption


def _explaining_plan(cell: Cell) -> RunPlan:
    return RunPlan(warmup_rounds=0, rounds=0, explain=True, room_bytes=room_bytes(cell))


def _explanation_of_end(cell: Cell, ended: Ended, context: ExplainContext) -> Explained:
    if ended.explanation is None:
        return Explained(cell=cell, explanation=None, why_not=_why_not(ended))
    context.explanations.write(context.key(cell), cell.id, ended.explanation)  # also that there is none, and why
    if not ended.explanation.moments:
        return Explained(cell=cell, explanation=None, why_not=_why_not(ended))
    return Explained(cell=cell, explanation=ended.explanation)


def room_bytes(cell: Cell) -> int:
    """Return the card's memory for the tensors of a simulated cell; 0 if the cell names no card."""
    card = gpus.named_card(cell.parameters) if cell.device == "sim" else None
    return available_bytes(card, cell.parameters) if card is not None else 0


def _why_not(ended: Ended) -> str:
    if ended.explanation is not None and ended.explanation.note:
        return ended.explanation.note
    if isinstance(ended.outcome, Failed):
        return f"its run failed in {ended.outcome.stage}: {ended.outcome.signature}"
    if isinstance(ended.outcome, MachineFault):
        return f"its run was {outcome_text(ended.outcome)}"
    if isinstance(ended.outcome, Passed):
        return "its run passed but left no explanation"
    return f"its run ended early: {outcome_text(ended.outcome)}"
