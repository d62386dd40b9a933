"""Pairs of results to compare, and the reasons why some cannot be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from dsregress.compare.comparison import EVERYTHING, NotCompared, not_measured
from dsregress.compare.metrics import Metric
from dsregress.compare.result_summary import ResultSummary, summarize
from dsregress.model import Failed, Finding, MachineFault, Passed, Result, Skipped, Stack, differing_parameters
from dsregress.probe.border.machine import REMEDIES

#: The beginning of a failure that is a limit of the simulation: the name of `vgpu.sim.errors.SimulationError`.
LIMIT = "SimulationError: "


class Pair(msgspec.Struct, frozen=True):
    """One cell, and the baseline's result for the same workload. The baseline's own cell is paired with itself."""

    stack: str
    workload: str
    own: ResultSummary
    base: ResultSummary | None
    base_again: ResultSummary | None = None  #: a second run of the baseline in the same session, where there is one
    #: The baseline's run that took turns with this one; a later session, of other stacks, has left it behind as `base`.
    base_beside: ResultSummary | None = None
    can_resume: bool = False  #: a release goes on from the same files with the data that are next

    @property
    def result(self) -> Result:
        """The cell's result."""
        return self.own.result

    @property
    def baseline(self) -> Result | None:
        """The baseline's result; None if it has none."""
        return self.base.result if self.base is not None else None

    @property
    def is_baseline(self) -> bool:
        """True if the cell is the baseline's own."""
        return self.own is self.base

    def finding(self, of: Metric | None = None, **fields: Any) -> Finding:
        """Return a finding on this cell. One ``of`` a metric counts and has no ratio, unless the fields say otherwise."""
        if of is not None:
            of_metric = {"metric": of.name, "phase": of.finding_phase, "unit": of.unit}
            fields = {**of_metric, "ratio": None, "significant": True, "relevant": True, **fields}
        cell = self.own.result.cell
        return Finding(stack=self.stack, scenario=cell.scenario, variant=cell.variant, device=cell.device, **fields)


def finding(stack: str, workload: str, **fields: Any) -> Finding:
    """Return a finding on the cell of a stack (by its id) and a workload."""
    scenario, rest = workload.split("/", 1)
    variant, device = rest.rsplit("/", 1)
    return Finding(stack=stack, scenario=scenario, variant=variant, device=device, **fields)


class ResultIndex:
    """Results by workload and stack. Each cell counts with its newest result that is a measurement of its stack."""

    def __init__(self, results: Iterable[Result], baseline: str) -> None:
        self.baseline = baseline
        self.stacks: dict[str, Stack] = {}
        self.superseded = 0
        self.installed: dict[str, dict[str, str]] = {}  #: stack -> what its first result had installed
        #: a distribution with its version -> what it requires of stacks' packages
        self.demands: dict[str, list[str]] = {}
        self.newest: dict[str, dict[str, ResultSummary]] = {}  #: workload -> stack -> its newest result
        self._baseline_runs: dict[str, list[ResultSummary]] = defaultdict(list)
        for result in map(as_compared, results):
            stack, workload = result.cell.stack.id, result.cell.workload
            self.stacks.setdefault(stack, result.cell.stack)
            if result.installed:
                self.installed.setdefault(stack, result.installed)
            self.demands |= {f"{name} {result.installed[name]}": lines for name, lines in result.demands.items()}
            summary = summarize(result)
            by_stack = self.newest.setdefault(workload, {})
            known = by_stack.get(stack)
            if known is not None:
                self.superseded += 1
            if known is None or result.precedence[:2] > known.result.precedence[:2]:
                by_stack[stack] = summary
            if stack == baseline:
                self._baseline_runs[workload].append(summary)

    def read(self, workload: str, stack: str | None = None) -> dict[str, ResultSummary]:
        """Return the cells of a workload by stack; ``stack`` may name the only one that is needed."""
        return self.newest.get(workload, {})

    def pairs(self) -> list[Pair]:
        """Return every newest result with the baseline's, in the order of the workloads."""
        pairs = []
        for workload, by_stack in self.newest.items():
            base = by_stack.get(self.baseline)
            again = self._again(workload, base)
            beside = {run.result.session: run for run in reversed(self._baseline_runs.get(workload, ()))}
            can_resume = any(one.resumed is not None and one.resumed.is_right for one in by_stack.values())
            pairs += [
                Pair(
                    *(stack, workload, own, base, again, base if own is base else beside.get(own.result.session)),
                    can_resume=can_resume,
                )
                for stack, own in by_stack.items()
            ]
        return pairs

    def _again(self, workload: str, base: ResultSummary | None) -> ResultSummary | None:
        if base is None:
            return None
        runs = self._baseline_runs[workload]
        return next((r for r in runs if r is not base and r.result.session == base.result.session), None)


def as_compared(result: Result) -> Result:
    """Return the result as a comparison sees it: a cell that the harness cannot simulate counts as skipped, not as a failure
    of the release."""
    match result.outcome:
        case Failed(signature=signature) if signature.startswith(LIMIT):
            return msgspec.structs.replace(result, outcome=Skipped(signature))
    return result


def why_not(pair: Pair) -> str:
    """Return the reason why a cell that passed cannot be compared with the baseline's at all; empty if it can."""
    base = pair.baseline
    if base is None:
        return "the baseline has no result for it"
    if isinstance(base.outcome, Skipped):
        return f"the baseline was skipped: {base.outcome.reason}"
    mine, theirs = pair.result, base
    if mine.cell.scenario_version != theirs.cell.scenario_version:
        return (
            f"different workloads: scenario version {mine.cell.scenario_version} against the baseline's "
            f"{theirs.cell.scenario_version}; run the older one again"
        )
    if mine.cell.framework != theirs.cell.framework:
        return f"different adapters: {mine.cell.framework} against the baseline's {theirs.cell.framework}"
    if mine.cell.parameters is not theirs.cell.parameters and (
        names := differing_parameters(mine.cell.parameters, theirs.cell.parameters)
    ):
        return f"different workloads: the baseline ran with another {', '.join(names)}"
    if mine.measuring_version != theirs.measuring_version:
        versions = f"{mine.measuring_version} against the baseline's {theirs.measuring_version}"
        return f"measured by different versions of the probe, {versions}; run the older one again"
    if pair.base is not None and pair.own.recorded and pair.base.recorded:
        if pair.own.world_size != pair.base.world_size:
            return f"{pair.own.world_size} ranks against the baseline's {pair.base.world_size}"
        if mine.cell.device == "cuda" and mine.hardware.gpus != theirs.hardware.gpus:
            return "different GPUs: allocators round differently on them"
    return ""


def left_out(pair: Pair) -> NotCompared | None:
    """Return the entry for a cell without a measurement of its own: skipped, or ended by the harness or by the machine."""
    match pair.result.outcome:
        case Skipped(reason=reason):
            return NotCompared(pair.stack, pair.workload, EVERYTHING, f"skipped: {reason}")
        case Failed(stage="harness", signature=signature):
            return not_measured(pair.stack, pair.workload, f"the harness failed: {signature}")
        case MachineFault(stage=stage, fault=fault, signature=signature):
            remedy = REMEDIES.get(fault, "")
            return not_measured(pair.stack, pair.workload, f"{fault} (in {stage}: {signature})", remedy)
        case Passed() if not pair.own.recorded:
            return not_measured(pair.stack, pair.workload, "its measurements are missing")
    return None
