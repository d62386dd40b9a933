"""Every declared CPU cell on real ranks, and every known fault, before the numerics oracle. Runs inside a measured
environment; `tests/functional/instruction_sets.py` does so for several instruction sets of the processor.

    python -m tests.probe.oracles.campaign train PATTERN FOLDER     a file for each cell: what its ranks trained
    python -m tests.probe.oracles.campaign judge FOLDER FILE        a line of JSON for each of them, and for each fault; adds
                                                                    what FILE lacks
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from dsregress.probe import scenario as scenarios
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.probe.border.wire import Numerics
from dsregress.probe.meters.phases import walk
from dsregress.probe.oracles import job_truth, reference_training, truth
from dsregress.probe.oracles.reference_training import Trained
from dsregress.probe.process import meeting
from dsregress.probe.process.channel import Channel
from dsregress.probe.process.rank import TRUTH_STEPS
from dsregress.probe.process.ranks import CellEnded, Ranks
from dsregress.probe.workloads import jobs, workload
from dsregress.probe.workloads.workload import Workload
from tests.probe.oracles.faults import FAULTS, trained_with

_ROOT = Path(__file__).parents[3]
_TIMEOUT_S = 300.0


def train(pattern: str, folder: Path) -> None:
    """Trains each cell whose name matches, as a framework does it, and keeps the result in ``folder``."""
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    cells = [cell for cell in _cells() if fnmatch.fnmatch(cell[0], pattern)]
    for name in {framework for _, framework, _ in cells}:
        importlib.import_module(name).preload("cpu")
    folder.mkdir(parents=True, exist_ok=True)
    for cell, framework, parameters in cells:
        file = folder / f"{cell.replace('/', '_')}.pt"
        if not file.exists():
            torch.save({"cell": cell, "parameters": parameters, **_trained(framework, parameters)}, file)


def _cells() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, framework and parameters of each declared cell."""
    for name, file in scenarios.find(_ROOT / "scenarios").items():
        declared = scenarios.load(file)
        if "cpu" in declared.devices:
            for variant in declared.variant_ids:
                yield f"{name}/{variant}", declared.framework, declared.resolve(variant, "cpu")


def _trained(framework: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """What rank 0 had after `TRUTH_STEPS`, or how the cell failed."""
    module = importlib.import_module(framework)
    world_size = module.world_size(parameters, "cpu")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        try:
            with Ranks(
                lambda rank, channel: _rank(module, parameters, rank, scratch, channel),
                range(world_size), world_size, scratch, meeting.rendezvous_variables("", scratch), _TIMEOUT_S,
            ) as ranks:  # fmt: skip
                ranks.measured()
            found: dict[str, Any] = torch.load(scratch / "trained.pt", weights_only=False)
            return found
        except CellEnded as ended:
            return {"failed": str(ended)}


def _rank(module: Any, parameters: dict[str, Any], rank: int, folder: Path, channel: Channel) -> None:
    numerics = Numerics()
    with module.surroundings(parameters, "cpu"):
        job = module.start(parameters, "cpu", parameters.get(scenarios.SHAPE, {}), nullcontext)
        for _ in range(TRUTH_STEPS):
            walk(job, lambda phase: nullcontext())
            numerics.losses.append(job.loss())
            numerics.gradient_norms.append(job.gradient_norm())
        trained = job.parameters()
    if rank == 0:
        torch.save({"trained": dict(trained), "numerics": numerics}, folder / "trained.pt")
    channel.send({"at": "measured", "imported": []})


def judge(folder: Path, file: Path) -> None:
    """Judges what was trained into ``folder`` and the folders in it, but for what ``file`` already has; cells of the same
    workload share their truth."""
    done = _judged_in(file) if file.exists() else set()
    by_workload: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.rglob("*.pt")):
        kept = {"where": path.parent.name, **torch.load(path, weights_only=False)}
        by_workload.setdefault(repr((_workload(kept["parameters"]), _job(kept["parameters"]))), []).append(kept)
    with file.open("a") as lines:
        for group in by_workload.values():
            for judged in _judged(group, done):
                lines.write(json.dumps(judged) + "\n")
                lines.flush()


def _judged_in(file: Path) -> set[tuple[str, str]]:
    """(release, cell), and (cell, fault)."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    found = {(line["where"], line["cell"]) for line in lines if "cell" in line}
    return found | {(cell, line["fault"]) for line in lines if "fault" in line for cell in line["cells"]}


def _workload(parameters: dict[str, Any]) -> Workload:
    return workload.pick(Workload, parameters)


def _job(parameters: dict[str, Any]) -> Any:
    return workload.pick(jobs.JobParameters, parameters) if "job" in parameters else None


def _judged(group: list[dict[str, Any]], done: Collection[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """``done`` has (release, cell) and (cell, fault) of what is left out."""
    parameters = group[0]["parameters"]
    work, shape = _workload(parameters), parameters.get(scenarios.SHAPE, {})
    make: Callable[[torch.dtype, int | None], Trained] = functools.partial(
        reference_training.train_plainly, work, shape, TRUTH_STEPS
    )
    if _job(parameters):
        make = functools.partial(job_truth.train_job, jobs.job_of(parameters, shape["vocab_size"]), shape, TRUTH_STEPS)
    once = functools.cache(make)
    for kept in group:
        if (kept["where"], kept["cell"]) in done:
            continue
        place = {"where": kept["where"], "cell": kept["cell"]}
        if "failed" in kept:
            yield {**place, "failed": kept["failed"]}
            continue
        numerics = kept["numerics"]
        truth.judge_training(work, shape, TRUTH_STEPS, kept["trained"], numerics, once)
        yield {**place, "errors": _errors(numerics), "note": numerics.note, "digest": numerics.parameter_digest}
    if work.lora_dropout:
        return
    cells = sorted({kept["cell"] for kept in group})
    for fault in FAULTS:
        if any((cell, fault) in done for cell in cells):
            continue
        if fault == "decay of vectors" and not _trains_vectors(once(torch.float32, None)):
            continue
        broken = trained_with(fault, work.world_size * work.gradient_accumulation_steps, make, work.torch_dtype)
        numerics = Numerics(losses=list(broken.losses), gradient_norms=list(broken.gradient_norms))
        truth.judge_training(work, shape, TRUTH_STEPS, broken.parameters, numerics, once)
        yield {"cells": cells, "fault": fault, "errors": _errors(numerics)}


def _trains_vectors(done: Trained) -> bool:
    return any(start.dim() == 1 and not start.equal(done.parameters[name]) for name, start in done.start.items())


def _errors(numerics: Numerics) -> list[float | None]:
    return [numerics.loss_error, numerics.gradient_norm_error, numerics.parameter_error]


if __name__ == "__main__":
    command, first, second = sys.argv[1:]
    if command == "train":
        train(first, Path(second))
    else:
        torch.set_num_threads(1)
        judge(Path(first), Path(second))
