"""One rank of one cell, from joining the others to its last timed round."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

from dsregress.probe.border.encoding import encode, free_value
from dsregress.probe.border.faults import HARNESS
from dsregress.probe.border.merging import explanation_file
from dsregress.probe.border.wire import NO_VALUES, CellRequest, Detail, Numerics, RankRecord
from dsregress.probe.framework import (
    Adapter,
    ComputesIdeal,
    JobAdapter,
    KeepsTime,
    Meter,
    Stopwatch,
    Training,
)
from dsregress.probe.holders import sites
from dsregress.probe.meters.host_work import FUNCTIONS_KEPT
from dsregress.probe.meters.phases import (
    HostStopwatch,
    ProfiledPhases,
    TimedPhases,
    announced,
    walk,
)
from dsregress.probe.meters.used_packages import UsedPackages
from dsregress.probe.meters.warning_counts import count_warnings
from dsregress.probe.oracles.unbroken import NotCoveredError, unbroken
from dsregress.probe.process import placement, scheduling
from dsregress.probe.process.adapter_loading import ProgramAdapter, load_adapter
from dsregress.probe.process.channel import Channel
from dsregress.probe.process.heartbeat import Heartbeat
from dsregress.probe.process.lazy_imports import new_modules
from dsregress.probe.process.rank_file import representable, write_record
from vgpu.figures import PhaseReading
from vgpu.watching.metered_phases import MeteredPhases, Phase
from vgpu.whole_files import write_whole

#: Steps before the metered one: in its first step a framework allocates, compiles and traces.
WARMUP_STEPS = 1
#: Steps whose numerics are compared with plain PyTorch: the warm-up, the metered and the profiled one.
TRUTH_STEPS = WARMUP_STEPS + 2

#: Called with the stage that begins, so that a crash is attributed to one.
Announce = Callable[[str], None]


def measure_rank(request: CellRequest, rank: int, folder: Path, channel: Channel, shape: Mapping[str, object]) -> None:
    """Measure, send ``{"at": "measured"}`` to the cell's process, then run a round for each ``{"do": "round"}``.

    Leaves ``rank-N.json``. Exceptions of the framework pass through.
    """
    imported = set(sys.modules)
    adapter = load_adapter(request.framework)
    runs_itself = isinstance(adapter, ProgramAdapter)

    heartbeat = Heartbeat(channel.send)

    def measured(record: RankRecord, detail: Detail) -> None:
        write_record(folder, record, detail if rank == request.first_rank else None)
        # Frameworks import lazily; what this rank had to import, the server imports once for all later cells. Not a
        # program's imports: modules look at the path, the environment and the command line, which are the program's own.
        shared = rank == request.first_rank and not runs_itself
        channel.send({"at": "measured", "imported": new_modules(imported) if shared else []})
        if request.short_turns:
            scheduling.take_short_turns()
        if request.huge_pages:  # as the next cell starts; the last one in the rounds that warm up
            placement.use_huge_pages()

    if isinstance(adapter, ProgramAdapter):
        adapter.run_rank(request, rank, heartbeat, measured, channel)
        return
    assert isinstance(adapter, JobAdapter)  # as `load_adapter` ensures
    if request.explain:
        _explain_rank(adapter, request, rank, folder, shape, heartbeat)
        channel.send({"at": "measured", "imported": []})
        channel.receive()
        return
    with count_warnings() as warnings, adapter.surroundings(request.parameters, request.device) as meter:
        meter.working = heartbeat.operator_ran
        measurement = RankMeasurement(adapter, request, rank, shape, meter, heartbeat.stage)
        measurement.measure()
        measurement.detail.warnings = dict(warnings)
        measured(measurement.record, measurement.detail)
        if request.device == "cpu":
            scheduling.keep_to_own_cores(int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
        _timed_rounds(measurement.training, channel, _stopwatch_of(adapter, request))


class RankMeasurement:
    """Takes all measurements of a rank except for timed rounds. `measure` fills in ``record`` and ``detail``, and leaves
    ``training`` ready for timed rounds."""

    training: Training

    def __init__(
        self,
        adapter: JobAdapter,
        request: CellRequest,
        rank: int,
        shape: Mapping[str, object],
        meter: Meter,
        announce: Announce,
    ) -> None:
        self._adapter, self._request, self._shape = adapter, request, shape
        self._meter, self._announce = meter, announce
        self._simulated = request.device == "sim"
        self._numerics = Numerics()
        self._packages = UsedPackages()
        self.record = RankRecord(rank=rank)
        self.detail = Detail()

    def measure(self) -> None:
        """Take the steps of ``docs/architecture.md``, "What a rank does", in their order."""
        with self._meter:
            self._build_job()
            self._walk_metered_steps()
            self._compute_ideal()
        if not self._simulated:  # the profiler would count the simulation's own work
            self._walk_profiled_step()
        self._compare_with_plain_pytorch()

    def _build_job(self) -> None:
        metered = MeteredPhases(self._meter, clocked=self._simulated)

        @contextmanager
        def init() -> Iterator[None]:
            with metered("init"):
                yield

        self._announce("init")
        start = time.perf_counter()
        self.training = self._adapter.start(self._request.parameters, self._request.device, self._shape, init)
        self.record.init_s = time.perf_counter() - start
        self.record.phases = metered.readings
        self.detail.configuration = dict(free_value(self.training.configuration()))

    def _walk_metered_steps(self) -> None:
        metered = MeteredPhases(self._meter, clocked=self._simulated)
        for _ in range(WARMUP_STEPS + 1):  # the last one counts
            metered.readings = {}
            self._walk(announced(metered, self._announce))
        self.record.phases.update(metered.readings)
        self.record.uses = self._packages.named()

    def _compute_ideal(self) -> None:
        """Record the bytes that the job had to hold if the adapter computes them, else the reason. Raise HarnessFault if
        the computation breaks."""
        self._announce(HARNESS)
        gc.freeze()  # the phases of the ideal count only later allocations
        if not isinstance(self._adapter, ComputesIdeal):
            self.record.ideal_note = "the adapter computes no ideal"
            return
        try:
            with unbroken("memory"):
                self.record.ideal = self._adapter.ideal(
                    self._request.parameters, self._request.device, self._shape, self._meter
                )
        except NotCoveredError as error:
            self.record.ideal_note = str(error)

    def _walk_profiled_step(self) -> None:
        profiled = ProfiledPhases()
        gc.freeze()  # the meter unfroze what was frozen, and a collection before each phase walks what is not
        with _profilable(self._request.device):
            self._walk(announced(profiled, self._announce))
        for phase, work in profiled.work.items():
            functions = work.functions()
            self.record.phases[phase].host_calls = sum(functions.values())
            self.detail.host_functions[phase] = dict(list(functions.items())[:FUNCTIONS_KEPT])

    def _compare_with_plain_pytorch(self) -> None:
        """Fill in how far the first steps are from the same training without the framework, or why that is unknown.
        Raise HarnessFault if the comparison breaks."""
        self._announce("measure")
        parameters = self.training.parameters()  # a collective operation: every rank takes part
        self._announce(HARNESS)
        try:
            with unbroken("numerics"):
                self._judge_numerics(parameters)
        except NotCoveredError as error:
            self._numerics.note = str(error)
        self._announce("measure")  # what follows is the framework's again
        self.record.numerics = representable(self._numerics) if self.record.rank == 0 else None

    def _judge_numerics(self, parameters: Mapping[str, object] | None) -> None:
        if parameters is None:
            raise NotCoveredError(NO_VALUES if self._simulated else "the adapter hands out no trained values")
        request = self._request
        self._adapter.judge(request.parameters, request.device, self._shape, TRUTH_STEPS, parameters, self._numerics)

    def _walk(self, phase: Phase) -> None:
        walk(self.training, phase)
        loss = self.training.loss()
        if loss is not None:
            self._numerics.losses.append(loss)
            self._numerics.gradient_norms.append(self.training.gradient_norm())


def _profilable(device: str) -> AbstractContextManager[None]:
    if device != "cuda":
        return nullcontext()
    from dsregress.probe.gpu.cuda import backward_on_this_thread

    return backward_on_this_thread()


def _stopwatch_of(adapter: Adapter, request: CellRequest) -> Stopwatch:
    own = adapter.stopwatch(request.device) if isinstance(adapter, KeepsTime) else None
    return own or HostStopwatch()


def _timed_rounds(training: Training, channel: Channel, stopwatch: Stopwatch) -> None:
    gc.collect()
    gc.freeze()
    while True:
        command = channel.receive()
        if command is None or command["do"] != "round":
            return
        phases = TimedPhases(stopwatch)
        gc.collect()  # so that each round begins alike
        seconds = phases.round(training)
        clocks = asdict(clocks) if (clocks := stopwatch.clocks()) else None
        channel.send({"at": "round", "seconds": seconds, "cost": asdict(phases.cost), "clocks": clocks})


def _explain_rank(
    adapter: JobAdapter,
    request: CellRequest,
    rank: int,
    folder: Path,
    shape: Mapping[str, object],
    heartbeat: Heartbeat,
) -> None:
    """Run the same init and steps as in `RankMeasurement`, observed: leave ``explanation-N.json`` next to the record."""
    with adapter.surroundings(request.parameters, request.device) as meter:
        meter.working, announce = heartbeat.operator_ran, heartbeat.stage
        metered = MeteredPhases(meter)
        announce("init")
        with meter, sites.observe_sites(meter, adapter) as observer:
            training = adapter.start(request.parameters, request.device, shape, lambda: observer.phase("init", metered))
            training.configuration()
            observer.built(training)
            init: PhaseReading = metered.readings["init"]
            for _ in range(WARMUP_STEPS + 1):
                metered.readings = {}
                observer.new_step()
                walk(training, announced(lambda name: observer.phase(name, metered), announce))
                if training.loss() is not None:  # as in a measurement: what these calls allocate is part of the job
                    training.gradient_norm()
            record = RankRecord(rank=rank, phases={"init": init, **metered.readings})
            announce("measure")
            observer.measured(record.phases)
            explanation = observer.explanation(rank, request.room_bytes)
    write_record(folder, record, None)
    write_whole(folder / explanation_file(rank), encode(asdict(explanation)))
