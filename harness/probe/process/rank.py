"""What one rank does for one cell, from joining the others to its last timed round."""

from __future__ import annotations

import gc
import importlib
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.probe.border.faults import signature_of
from harness.probe.border.merging import explanation_file
from harness.probe.border.wire import (
    NO_NUMBER,
    CellRequest,
    Detail,
    Numerics,
    PhaseReading,
    RankRecord,
)
from harness.probe.framework import Framework, Meter, Training
from harness.probe.holders import sites
from harness.probe.meters import noise
from harness.probe.meters.host_work import FUNCTIONS_KEPT
from harness.probe.meters.phases import (
    HostStopwatch,
    Metered,
    Profiled,
    Stopwatch,
    Timed,
    announced,
    walk,
)
from harness.probe.process.channel import Channel

#: Steps before the metered one: in its first a framework allocates, compiles and traces.
WARMUP_STEPS = 1
#: Steps whose numerics are compared with plain PyTorch: the warm-up, the metered and the profiled one.
TRUTH_STEPS = WARMUP_STEPS + 2


def run(request: CellRequest, rank: int, folder: Path, channel: Channel, shape: Mapping[str, Any]) -> None:
    """Measure, tell the cell's process ``{"at": "measured"}``, then run a round for each ``{"do": "round"}``.

    Leaves ``rank-N.json``. Whatever the framework raises passes through.
    """
    imported = set(sys.modules)
    framework: Framework = importlib.import_module(request.framework)  # type: ignore[assignment]
    if request.explain:
        _explain(framework, request, rank, folder, channel, shape)
        return

    def announce(stage: str) -> None:
        channel.send({"at": "stage", "stage": stage})

    with noise.heard() as warnings, framework.surroundings(request.parameters, request.device) as meter:
        measured = _Measured(framework, request, shape, meter, announce)
        record, detail = measured.record(rank)
        detail.warnings = dict(warnings)
        contents = {"record": asdict(record), "detail": asdict(detail) if rank == 0 else None}
        _write(folder / f"rank-{rank}.json", contents)
        # Frameworks import lazily; what this rank had to import, the server imports once for all the cells to come.
        channel.send(
            {"at": "measured", "imported": sorted(set(sys.modules) - imported) if rank == request.first_rank else []}
        )
        _timed_rounds(measured.training, channel, _stopwatch(framework, request))


def _explain(
    framework: Framework, request: CellRequest, rank: int, folder: Path, channel: Channel, shape: Mapping[str, Any]
) -> None:
    """The same init and steps as those that are measured, watched: leaves ``explanation-N.json`` beside the record."""

    def announce(stage: str) -> None:
        channel.send({"at": "stage", "stage": stage})

    with framework.surroundings(request.parameters, request.device) as meter:
        metered = Metered(meter)
        announce("init")
        with meter, sites.watching(meter, framework, request.framework) as watch:
            training = framework.start(request.parameters, request.device, shape, lambda: watch.phase("init", metered))
            training.configuration()
            watch.built(training)
            init = metered.readings["init"]
            for _ in range(WARMUP_STEPS + 1):
                metered.readings = {}
                watch.new_step()
                walk(training, announced(lambda name: watch.phase(name, metered), announce))
                if training.loss() is not None:  # as when it is measured: what a question allocates is part of the job
                    training.gradient_norm()
            record = RankRecord(rank=rank, phases={"init": init, **metered.readings})
            announce("measure")
            watch.measured(record.phases)
            explanation = watch.explanation(rank)
    _write(folder / f"rank-{rank}.json", {"record": asdict(record), "detail": None})
    _write(folder / explanation_file(rank), asdict(explanation))
    channel.send({"at": "measured", "imported": []})
    channel.receive()


class _Measured:
    """A live job whose exact figures have been taken."""

    def __init__(
        self, framework: Framework, request: CellRequest, shape: Mapping[str, Any], meter: Meter, announce: Any
    ) -> None:
        simulated = request.device == "sim"
        metered, profiled = Metered(meter, clocked=simulated), Profiled()
        announce("init")
        start = time.perf_counter()
        with meter:

            @contextmanager
            def init() -> Iterator[None]:
                with metered("init"):
                    yield

            self.training: Training = framework.start(request.parameters, request.device, shape, init)
            self.init_s = time.perf_counter() - start
            self.configuration = self.training.configuration()
            self.numerics = Numerics()
            init_reading = metered.readings["init"]
            for _ in range(WARMUP_STEPS + 1):  # the last one counts
                metered.readings = {}
                self._step(announced(metered, announce))
            announce("measure")
            gc.freeze()  # the phases of the ideal are about what is made from here on
            self.ideal, self.ideal_note = _ideal(framework, request, shape, meter)
        if not simulated:  # where it would count the simulation's own work
            gc.freeze()  # the meter let go of what was frozen, and a collection before each phase walks what is not
            with _profilable(request.device):
                self._step(announced(profiled, announce))
        announce("measure")
        _truth(framework, request, shape, self.training, self.numerics)
        self.readings: dict[str, PhaseReading] = {"init": init_reading, **metered.readings}
        self.functions: dict[str, dict[str, int]] = {}
        for phase, work in profiled.work.items():
            functions = work.functions()
            self.readings[phase].host_calls = sum(functions.values())
            self.functions[phase] = dict(list(functions.items())[:FUNCTIONS_KEPT])

    def _step(self, phase: Any) -> None:
        walk(self.training, phase)
        loss = self.training.loss()
        if loss is not None:
            self.numerics.losses.append(loss)
            self.numerics.gradient_norms.append(self.training.gradient_norm())

    def record(self, rank: int) -> tuple[RankRecord, Detail]:
        return (
            RankRecord(
                rank=rank,
                phases=self.readings,
                init_s=self.init_s,
                numerics=in_json(self.numerics) if rank == 0 else None,
                ideal=self.ideal,
                ideal_note=self.ideal_note,
            ),
            Detail(host_functions=self.functions, configuration=self.configuration),
        )


def in_json(numerics: Numerics) -> Numerics:
    """The same without what JSON cannot say."""
    numerics.losses = [loss if loss is not None and math.isfinite(loss) else None for loss in numerics.losses]
    numerics.gradient_norms = [
        norm if norm is not None and math.isfinite(norm) else None for norm in numerics.gradient_norms
    ]
    for name in ("loss_error", "gradient_norm_error", "parameter_error"):
        error = getattr(numerics, name)
        if error is not None and not error < NO_NUMBER:
            setattr(numerics, name, NO_NUMBER)
    return numerics


def _profilable(device: str) -> AbstractContextManager[None]:
    if device != "cuda":
        return nullcontext()
    from harness.probe.gpu.cuda import backward_on_this_thread

    return backward_on_this_thread()


def _truth(
    framework: Framework, request: CellRequest, shape: Mapping[str, Any], training: Training, numerics: Numerics
) -> None:
    """Fills in how far the first steps are from the same training without the framework."""
    parameters = training.parameters()  # a collective operation: every rank takes part
    if parameters is not None:
        framework.judge(request.parameters, request.device, shape, TRUTH_STEPS, parameters, numerics)


def _ideal(
    framework: Framework, request: CellRequest, shape: Mapping[str, Any], meter: Meter
) -> tuple[dict[str, dict[str, int]], str]:
    """What the job had to hold, where the adapter can tell; else why not. It never costs a cell its measurement."""
    tell = getattr(framework, "ideal", None)
    if tell is None:
        return {}, "the adapter tells no ideal"
    try:
        return tell(request.parameters, request.device, shape, meter), ""
    except Exception as error:
        return {}, signature_of(error)


def _stopwatch(framework: Framework, request: CellRequest) -> Stopwatch:
    bring = getattr(framework, "stopwatch", None)
    own: Stopwatch | None = bring(request.device) if bring is not None else None
    return own or HostStopwatch()


def _timed_rounds(training: Training, channel: Channel, stopwatch: Stopwatch) -> None:
    gc.collect()
    gc.freeze()
    while True:
        command = channel.receive()
        if command is None or command["do"] != "round":
            return
        seconds = Timed(stopwatch).round(training)
        clocks = stopwatch.clocks()
        channel.send({"at": "round", "seconds": seconds, "clocks": asdict(clocks) if clocks else None})


def _write(path: Path, content: dict[str, Any]) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content))
    unfinished.rename(path)


def read_record(path: Path) -> tuple[RankRecord, Detail | None]:
    """The reverse of what `run` leaves."""
    content = json.loads(path.read_text())
    record = content["record"]
    record["phases"] = {name: PhaseReading(**reading) for name, reading in record["phases"].items()}
    record["numerics"] = Numerics(**record["numerics"]) if record["numerics"] else None
    return RankRecord(**record), Detail(**content["detail"]) if content["detail"] else None
