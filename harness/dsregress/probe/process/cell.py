"""One cell inside a measured environment: its ranks, its record, and pytest-benchmark as its timer.

The probe's server runs the test at the bottom for the host, one cell at a time; ``pytest scenarios/`` collects it for a
user: there it covers every scenario and variant that runs on CPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import pytest

from dsregress.probe import scenario as scenarios
from dsregress.probe.border import machine
from dsregress.probe.border.encoding import encode
from dsregress.probe.border.faults import detail_of, signature_of
from dsregress.probe.border.merging import merge_explanation_files
from dsregress.probe.border.surroundings import ENVIRONMENT, TRUTHS
from dsregress.probe.border.wire import CellRequest, Detail, RankRecord, RunRecord
from dsregress.probe.framework import Adapter
from dsregress.probe.process import meeting
from dsregress.probe.process.adapter_loading import ProgramAdapter, load_adapter
from dsregress.probe.process.canary import assert_canary_lives
from dsregress.probe.process.lazy_imports import import_all
from dsregress.probe.process.rank import measure_rank
from dsregress.probe.process.rank_file import Unreadable, rank_file, read_record
from dsregress.probe.process.ranks import CellEnded, EnoughRounds, Ranks, TimedRound
from vgpu import isolation
from vgpu.replacing import working_folder
from vgpu.whole_files import write_whole

#: Rounds of a cell under plain pytest.
_ROUNDS, _WARMUP_ROUNDS, _TIMEOUT_S = 5, 1, 180.0


class Gate(Protocol):
    """Holds back timed rounds, and reports the cell's progress to the host, through the server."""

    def pass_through(self, last_s: float | None) -> None:
        """Return when the next timed round may run; ``last_s`` is the last one's duration in seconds. Raise EnoughRounds
        if none is needed."""

    def beat(self, stage: str) -> None:
        """Report a sign of life: the current stage."""

    def imported(self, modules: list[str]) -> None:
        """Report modules that a rank imported lazily, for the process that forks the next cells."""


class OpenGate:
    """The gate of a cell without a host."""

    def pass_through(self, last_s: float | None) -> None:
        """Let each round begin at once."""

    def beat(self, stage: str) -> None:
        """Report nothing."""

    def imported(self, modules: list[str]) -> None:
        """Report nothing."""
        import_all(modules)


def execute_cell(request: CellRequest, folder: Path, benchmark: Any, gate: Gate) -> RunRecord:
    """Run a cell to its end, write ``record.json`` to ``folder`` however the cell ends, and return the record."""
    adapter = load_adapter(request.framework)
    here = _ranks_here(adapter, request)
    request = dataclasses.replace(request, first_rank=here[0])
    record = RunRecord(outcome="passed", world_size=int(request.parameters.get("world_size", len(here))))
    rounds: list[TimedRound] = []
    try:
        shape = _shape(request)
        assert_canary_lives(adapter, request)
        while True:
            if isinstance(adapter, ProgramAdapter):
                adapter.prepare_run(request, folder)
            try:
                _measure_ranks(request, here, shape, folder, rounds, benchmark, gate)
            except CellEnded:
                if isinstance(adapter, ProgramAdapter) and adapter.prepare_retry(folder):
                    continue
                raise
            break
    except CellEnded as ended:
        record.outcome, record.stage = ended.outcome, ended.stage
        record.signature, record.log_tail, record.machine_fault = ended.signature, ended.detail, ended.machine_fault
        record.whereabouts = ended.whereabouts
    except Exception as error:  # an error of the probe itself is a result too, never a hang
        _fail(record, error)
    if request.explain:
        merge_explanation_files(folder, here)
    counted = rounds[request.warmup_rounds :]
    record.ranks, record.detail = _collect(folder, here)
    if record.outcome == "passed" and isinstance(adapter, ProgramAdapter):
        try:
            adapter.keep_files(request, folder, record.ranks)
        except OSError as error:
            _fail(record, error)
    if record.outcome == "passed" and (
        missing := sorted({*here} - {rank.rank for rank in record.ranks if rank.phases})
    ):
        record.outcome, record.stage = "failed", "harness"
        record.signature = (
            f"rank {missing[0]} passed, and its measurements are gone: something removed or changed its file"
        )
    if record.ranks and (outside := isolation.changed_outside(folder)):
        record.ranks[0].notes.append(_kept_apart(outside))
    isolation.discard(folder)
    record.round_s = [_longest_rank_s(timed) for timed in counted]
    record.costs = [timed.cost for timed in counted]
    record.clocks = [timed.clocks for timed in counted if timed.clocks is not None]
    record.discarded_rounds = sum(timed.discarded for timed in counted)
    for rank in record.ranks:
        for phase, reading in rank.phases.items():
            if counted and phase in counted[0].seconds:
                reading.seconds = median(timed.seconds[phase] for timed in counted)
    if request.rounds and counted:
        benchmark.extra_info.update(extra_info(record))
    write_whole(folder / "record.json", encode(asdict(record)))
    return record


def _fail(record: RunRecord, error: Exception) -> None:
    """Record that the probe itself has failed."""
    record.machine_fault = machine.of_error(error)
    record.outcome, record.stage = "machine_fault" if record.machine_fault else "failed", "harness"
    record.signature, record.log_tail = signature_of(error), detail_of(error)


def _ranks_here(adapter: Adapter, request: CellRequest) -> Sequence[int]:
    """Return the ranks of the cell that run on this machine."""
    if request.device == "sim" and isinstance(adapter, ProgramAdapter):
        return adapter.simulated_ranks(request.parameters)
    processes = request.local_ranks or adapter.world_size(request.parameters, request.device)
    return range(request.first_rank, request.first_rank + processes)


def _kept_apart(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"the program changed {paths[0]}{more}: discarded with the run, your files are as they were"


def _measure_ranks(
    request: CellRequest,
    here: Sequence[int],
    shape: Mapping[str, object],
    folder: Path,
    rounds: list[TimedRound],
    benchmark: Any,
    gate: Gate,
) -> None:
    """Start the ranks and add their timed ``rounds``. Raise CellEnded if a rank fails."""
    with (
        meeting.rendezvous_variables(request.rendezvous, folder) as where,
        Ranks(
            lambda rank, channel: measure_rank(request, rank, folder, channel, shape),
            here,
            int(request.parameters["world_size"]) if request.rendezvous else len(here),
            folder,
            {**where, TRUTHS: request.truths},
            request.timeout_s,
            gate.beat,
        ) as ranks,
    ):
        with contextlib.suppress(EnoughRounds):  # a program that ran on was ended: its ranks keep what they measured
            gate.imported(ranks.measured())
        if request.rounds:
            with contextlib.suppress(EnoughRounds):
                benchmark.pedantic(
                    lambda: rounds.append(ranks.round()),
                    setup=lambda: gate.pass_through(_longest_rank_s(rounds[-1]) if rounds else None),
                    rounds=request.rounds,
                    warmup_rounds=request.warmup_rounds,
                )
            benchmark.has_error = len(rounds) <= request.warmup_rounds  # not if enough were run


def _longest_rank_s(timed: TimedRound) -> float:
    return sum(timed.seconds.values())


def _shape(request: CellRequest) -> Mapping[str, object]:
    """Return the model's shape; empty if the scenario names no model. Raise ScenarioError if its shape is missing."""
    if "model" in request.parameters and scenarios.SHAPE not in request.parameters:
        raise scenarios.ScenarioError("models.py: not there; it holds the shapes of the models")
    shape: Mapping[str, Any] = request.parameters.get(scenarios.SHAPE, {})
    return shape


def extra_info(record: RunRecord) -> dict[str, int]:
    """Return ``{phase}_{metric}`` -> bytes of the worst rank, for pytest-benchmark's own report."""
    return {
        f"{phase}_{name}": max(getattr(rank.phases[phase], name) for rank in record.ranks)
        for phase in (record.ranks[0].phases if record.ranks else ())
        for name in ("device_peak_bytes", "device_retained_bytes", "host_peak_bytes", "host_retained_bytes")
    }


def _collect(folder: Path, here: Sequence[int]) -> tuple[list[RankRecord], Detail | None]:
    """Return the records that the ranks left, without those that are missing or unreadable, and the detail."""
    records: list[RankRecord] = []
    detail: Detail | None = None
    for number in here:
        try:
            record, record_detail = read_record(rank_file(folder, number))
        except Unreadable:
            continue
        records.append(record)
        detail = record_detail or detail
    return records, detail


# --- as a pytest item -------------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize with every scenario in the folder of the collecting file that runs on CPU, in every variant."""
    folder = Path(str(metafunc.definition.path)).parent
    cells = []
    for name, file in scenarios.find(folder).items():
        declared = scenarios.load(file)
        program = str(folder.parent / declared.folder) if declared.folder else ""
        cells += [(name, v, declared, program) for v in declared.variant_ids if "cpu" in declared.devices]
    metafunc.parametrize("cell", cells, ids=[f"{name}-{variant}" for name, variant, *_ in cells])


def test_scenario(cell: Any, benchmark: object) -> None:
    """Check that a cell passes and trains like plain PyTorch, and show its step time and its memory."""
    name, variant, declared, program = cell
    parameters = declared.resolve(variant, "cpu")
    if declared.line:
        parameters["program"] = declared.line
    for package in parameters.get(scenarios.PACKAGES, ()):
        try:
            distribution(package)
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed here, which this program needs")
    request = CellRequest(
        scenario=name,
        variant=variant,
        device="cpu",
        parameters=parameters,
        framework=declared.framework,
        warmup_rounds=_WARMUP_ROUNDS,
        rounds=_ROUNDS,
        timeout_s=_TIMEOUT_S,
        program_folder=program,
    )
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    load_adapter(request.framework).preload("cpu")
    with tempfile.TemporaryDirectory() as folder, working_folder(Path(folder)):  # as the probe's server runs a cell
        record = execute_cell(request, Path(folder), benchmark, OpenGate())
    assert record.outcome == "passed", f"{record.outcome} in {record.stage}: {record.signature}\n{record.log_tail}"
    numerics = record.ranks[0].numerics
    if numerics is not None:
        for error in ("loss_error", "gradient_norm_error", "parameter_error"):
            distance = getattr(numerics, error)
            assert distance is None or distance <= 1, f"{error}: {distance:g} tolerances from plain PyTorch"
