"""One training job as one rank of N, in a forked process, on real CPU tensors or simulated.

Needs a measured environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.probe import scenario
from harness.probe.framework import Meter
from harness.probe.ledger import NOWHERE, Event
from harness.probe.phases import walk

ROOT = Path(__file__).parents[2]
STEPS = 2

#: As the scenarios' `cpu` mode: a window of live parameters that is small against the model.
SMALL = {
    "sequence_length": 64, "micro_batch_size": 2, "world_size": 4, "dtype": "bf16", "zero_stage": 3, "zero_init": True,
    "gradient_checkpointing": "none", "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
    "reduce_bucket_size": "auto", "prefetch_bucket_size": "auto", "persistence_threshold": 0,
    "max_live_parameters": 30_000, "max_reuse_distance": 30_000,
}  # fmt: skip


def preload() -> None:
    from harness.probe.frameworks import deepspeed as adapter

    adapter.preload("sim")


def train(parameters: dict[str, Any], device: str) -> dict[str, Any]:
    """Every phase of ``STEPS`` steps and what it measured: ``{"init": {...}, "0.0.forward": {...}, ...}``, with the
    peak over both memories together as ``peak_bytes`` and the bytes of the model's buffers as init's ``buffers``."""
    return _forked(lambda: _train(parameters, device))


def _train(parameters: dict[str, Any], device: str) -> dict[str, Any]:
    from harness.probe.frameworks import deepspeed as adapter

    adapter.fill = lambda model: None  # the weights' values do not matter here
    shape = scenario.load_shapes(ROOT / "scenarios")[parameters["model"]]
    readings: dict[str, Any] = {}
    names: list[str] = []
    with _surroundings(parameters, device) as meter, meter:

        @contextlib.contextmanager
        def phase(name: str) -> Iterator[None]:
            meter.begin()
            yield
            readings[name] = asdict(meter.end())
            names.append(name)

        training = adapter.start(parameters, device, shape, lambda: phase("init"))
        for step in range(STEPS):
            counts: dict[str, int] = {}

            def numbered(name: str, step: int = step, counts: dict[str, int] = counts) -> Any:
                counts[name] = counts.get(name, -1) + 1
                return phase(f"{step}.{counts[name]}.{name}")

            walk(training, numbered)
        readings["init"]["buffers"] = sum(b.nbytes for b in training._engine.module.buffers())
        trace: list[Event] = meter.ledger.trace  # type: ignore[attr-defined]
    peaks = _peaks(trace, len(names))
    for number, name in enumerate(names, start=1):
        readings[name]["peak_bytes"] = peaks[number]
    return readings


@contextlib.contextmanager
def _surroundings(parameters: dict[str, Any], device: str) -> Iterator[Meter]:
    if device == "sim":
        from harness.probe.sim import Simulation

        with Simulation(0, parameters["world_size"], kernels="cpu") as simulation:
            yield simulation.meter
        return
    from harness.probe.frameworks import deepspeed as adapter
    from harness.probe.meter import TorchMeter

    os.environ["DSREGRESS_RENDEZVOUS"] = "env://"
    with adapter._alone(parameters["world_size"]):  # as one GPU stands for many
        yield TorchMeter("cpu", trace=True)


def _peaks(trace: list[Event], phases: int) -> list[int]:
    """Peak of both memories together by the phase's number; 0 is what was before the first."""
    live, at = 0, 0
    peaks = [0] * (phases + 1)
    for _, nbytes, memory, phase in trace:
        for entered in range(at + 1, phase + 1):
            peaks[entered] = live
        at = phase
        if memory != NOWHERE:
            live += nbytes
            peaks[phase] = max(peaks[phase], live)
    for entered in range(at + 1, phases + 1):
        peaks[entered] = live
    return peaks


def _forked(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """In a process of its own, as frameworks keep state in their modules."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        try:
            answer = {"done": work()}
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(process, 0)
    answer = json.loads(text)
    assert "failed" not in answer, answer["failed"]
    return answer["done"]
