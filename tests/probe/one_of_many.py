"""One training job as one rank of N, in a forked process, on real CPU tensors or simulated.

Needs a measured environment.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dsregress.probe import scenario
from dsregress.probe.border.wire import CellRequest, RankRecord
from dsregress.probe.framework import Meter
from dsregress.probe.meters.phases import walk
from dsregress.probe.process.cell import OpenGate, execute_cell
from dsregress.probe.process.lazy_imports import import_all, new_modules
from vgpu.meters.ledger import StorageLedger

from . import one_memory

ROOT = Path(__file__).parents[2]
STEPS = 2

#: What is left of a gradient by a reduction over ranks.
_SMALL_GRADIENTS = 0.01

#: As the scenarios' `cpu` mode: a window of live parameters that is small against the model.
SMALL = {
    "sequence_length": 64, "micro_batch_size": 2, "world_size": 4, "dtype": "bf16", "zero_stage": 3, "zero_init": True,
    "gradient_checkpointing": "none", "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
    "reduce_bucket_size": "auto", "prefetch_bucket_size": "auto", "persistence_threshold": 0,
    "max_live_parameters": 30_000, "max_reuse_distance": 30_000,
}  # fmt: skip


def preload() -> None:
    """Also what every job imports lazily. What some import, each of their forks does: tensors that are made by that count in
    jobs that are compared."""
    from dsregress.probe.frameworks import deepspeed as adapter

    adapter.preload("sim")

    def imported() -> dict[str, Any]:
        before = set(sys.modules)
        _train({**SMALL, "model": "llama-tiny"}, "sim")
        return {"modules": new_modules(before)}

    import_all(_forked(imported)["done"]["modules"])


def train(parameters: dict[str, Any], device: str) -> dict[str, Any]:
    """Every phase of ``STEPS`` steps and what it measured: ``{"init": {...}, "0.0.forward": {...}, ...}``, with
    ``peak_bytes`` and ``held_bytes`` as they were if device and host were one memory, and ``moves``, the copies from one
    memory to the other that would then not be made."""
    answer = _forked(lambda: _train(parameters, device))
    assert "failed" not in answer, answer["traceback"]
    return answer["done"]


def attempt(parameters: dict[str, Any], device: str) -> dict[str, Any]:
    """As `train`, for a job that may fail: then ``{"failed": the error's type}``."""
    answer = _forked(lambda: _train(parameters, device))
    if "failed" in answer:
        sys.stderr.write(answer["traceback"])  # pytest shows it where a test fails
        return {"failed": answer["failed"]}
    return answer["done"]


def on_real_ranks(name: str, variant: str, folder: Path, truths: str = "") -> RankRecord:
    """Rank 0 of a declared cell that passed on the CPU, without timed rounds. ``truths`` is where its truth is kept."""
    declared = scenario.load(ROOT / "scenarios" / f"{name}.py")
    request = CellRequest(
        scenario=name,
        variant=variant,
        device="cpu",
        parameters=declared.resolve(variant, "cpu"),
        framework=declared.framework,
        warmup_rounds=0,
        rounds=0,
        timeout_s=180.0,
        truths=truths,
    )
    record = execute_cell(request, folder, None, OpenGate())
    assert record.outcome == "passed", f"{record.stage}: {record.signature}\n{record.log_tail}"
    return record.ranks[0]


def _train(parameters: dict[str, Any], device: str) -> dict[str, Any]:
    from dsregress.probe.frameworks import deepspeed as adapter

    logging.disable(logging.WARNING)  # each engine prints a hundred lines
    adapter.fill = lambda *arguments: None  # the weights' values do not matter here
    shape = scenario.load_shapes(ROOT / "scenarios")[parameters["model"]]
    readings: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, _surroundings(parameters, device, folder) as meter, meter:
        ledger: StorageLedger = meter.ledger  # type: ignore[attr-defined]

        @contextlib.contextmanager
        def phase(name: str) -> Iterator[None]:
            meter.begin()
            moves = len(ledger.moves)
            yield
            moves = len(ledger.moves) - moves
            readings[name] = {**asdict(meter.end()), "moves": moves}

        training = adapter.start(parameters, device, shape, lambda: phase("init"))
        for step in range(STEPS):
            counts: dict[str, int] = {}

            def numbered(name: str, step: int = step, counts: dict[str, int] = counts) -> Any:
                counts[name] = counts.get(name, -1) + 1
                return phase(f"{step}.{counts[name]}.{name}")

            walk(training, numbered)
        assert ledger.trace is not None
        figures = one_memory.figures(ledger.trace, ledger.moves, len(readings))
    for reading, (peak, held) in zip(readings.values(), figures, strict=True):
        reading.update(peak_bytes=peak, held_bytes=held)
    return readings


@contextlib.contextmanager
def _surroundings(parameters: dict[str, Any], device: str, folder: str) -> Iterator[Meter]:
    os.environ["DSREGRESS_RENDEZVOUS"] = f"file://{folder}/rendezvous"  # a checkpoint is put beside it
    if device == "sim":
        with _card_like_a_processor(parameters["world_size"]) as simulated:
            yield simulated
        return
    from dsregress.probe.frameworks import deepspeed as adapter
    from dsregress.probe.frameworks import on_processors

    with (
        adapter._alone(parameters["world_size"]),
        on_processors.joined_ranks(parameters, device),
    ):  # as one GPU stands for many
        yield _healthy_meter()


@contextlib.contextmanager
def _card_like_a_processor(world_size: int) -> Iterator[Meter]:
    """A virtual card that differs from a CPU by its memory alone: a CPU's kernels, no cuBLAS, nothing that runs apart."""
    from deepspeed.accelerator import get_accelerator

    from vgpu.attaching import attached
    from vgpu.device.card import VirtualCard
    from vgpu.replacing import Patches
    from vgpu.sim import Simulation

    class WithoutBlas(VirtualCard):
        blas_workspace_bytes = 0

    with (
        Simulation(0, world_size, kernels="cpu") as simulation,
        attached("meta", simulation.mode, WithoutBlas(), world_size=world_size),
        Patches("as synchronous as a CPU") as patches,
    ):
        accelerator = type(get_accelerator())
        patches.replace(accelerator, "is_synchronized_device", lambda self: True)
        patches.replace(accelerator, "pin_memory", lambda self, tensor, align_bytes=1: tensor)
        patches.replace(accelerator, "is_pinned", lambda self, tensor: True)
        yield simulation.meter


def _healthy_meter() -> Meter:
    """A meter of real tensors in a job whose other ranks have what this one has, and whose gradients are small. That is
    what `sim` takes a healthy job to be. Without it the outputs of collectives would be what the allocator left there,
    also an overflow, which skips the step; and large gradients are clipped, by operators that some releases launch for
    large ones only."""
    import torch

    from vgpu.meters import operators
    from vgpu.meters.meter import TorchMeter

    class HealthyMeter(TorchMeter):
        def _collective(self, func: Any, what: operators.Traits, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            answer = super()._collective(func, what, args, kwargs)
            outputs: list[torch.Tensor] = list(operators.tensors_in(args[0]))
            inputs: list[torch.Tensor] = list(operators.tensors_in(args[1])) if len(args) > 1 else []
            if what.kind == "all_gather":
                for number, output in enumerate(outputs):
                    share = inputs[number * len(inputs) // len(outputs)].clone()  # it may be a part of the output
                    output.view(-1, share.numel()).copy_(share.view(1, -1))
            elif what.kind == "reduce_scatter":
                for number, output in enumerate(outputs):
                    whole = inputs[number * len(inputs) // len(outputs)].clone()
                    output.view(-1).copy_(whole.view(-1)[: output.numel()]).mul_(_SMALL_GRADIENTS)
            elif what.kind == "all_reduce" and outputs[0].is_floating_point():
                for output in outputs:
                    output.mul_(_SMALL_GRADIENTS)
            return answer

    return HealthyMeter("cpu", trace=True)


def _forked(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """In a process of its own, as frameworks keep state in their modules: ``{"done": ...}``, or ``{"failed": the error's
    type, "traceback": ...}``."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        try:
            try:
                answer = {"done": work()}
            except BaseException as error:
                answer = {"failed": type(error).__name__, "traceback": traceback.format_exc()}
            with os.fdopen(write, "w") as pipe:
                json.dump(answer, pipe)
        finally:
            os._exit(0)  # whatever happens: there is one pytest only
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(process, 0)
    answer: dict[str, Any] = json.loads(text)
    return answer
