"""DeepSpeed's adapter for jobs of several models on the same ranks: one engine per role (`dsregress.probe.workloads.jobs`).

Engines and surroundings are those of `dsregress.probe.frameworks.deepspeed`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from dsregress.probe.border.wire import Numerics
from dsregress.probe.frameworks import deepspeed as one_engine
from dsregress.probe.frameworks.deepspeed import PACKAGE, canary_surroundings, stopwatch, surroundings, world_size
from dsregress.probe.frameworks.deepspeed_config import Sharding, of_frozen
from dsregress.probe.frameworks.deepspeed_config import deepspeed_config as one_config
from dsregress.probe.frameworks.deepspeed_engine import mean_loss, whole_parameters
from dsregress.probe.workloads.flatten import flatten

__all__ = ["PACKAGE", "canary_surroundings", "judge", "preload", "start", "stopwatch", "surroundings", "world_size"]


def preload(device: str) -> None:
    """Import the modules that every cell needs."""
    one_engine.preload(device)
    import dsregress.probe.oracles.job_truth  # noqa: F401


def start(
    parameters: Mapping[str, object],
    device: str,
    shape: Mapping[str, Any],
    measured: Callable[[], AbstractContextManager[None]],
) -> JobTraining:
    """Build the model and its engine, metered as init; see `dsregress.probe.framework`."""

    from dsregress.probe.workloads import jobs

    job = jobs.job_of(parameters, shape["vocab_size"])
    alone = one_engine.join(parameters, device)
    with measured():
        engines = {role: _engine(role, job, parameters, device, shape, fill=not alone) for role in job.roles}
    return JobTraining(job, engines, device, alone)


def config(parameters: Mapping[str, object], hidden_size: int, role: str) -> dict[str, Any]:
    """Return the configuration that ``deepspeed.initialize`` gets for one role."""
    from dsregress.probe.workloads.jobs import TRAINED, JobParameters
    from dsregress.probe.workloads.workload import pick

    if role in TRAINED:
        return one_config(parameters, hidden_size)
    frozen = {**of_frozen(parameters), "offload_param": pick(JobParameters, parameters).frozen_offload_param}
    return one_config(frozen, hidden_size)


def _engine(
    role: str, job: Any, parameters: Mapping[str, Any], device: str, shape: Mapping[str, object], *, fill: bool
) -> object:
    import deepspeed

    from dsregress.probe.workloads import jobs, workload

    work, shard = job.work, workload.pick(Sharding, parameters)
    model_config = workload.model_configuration(work, shape)
    settings = config(parameters, model_config.hidden_size, role)
    with one_engine.zero_init(settings, shard):
        model = jobs.build_role(role, work, model_config, work.torch_dtype)
    if hasattr(model, "score"):
        # Made outside zero.Init, the head is on the host, and DeepSpeed would move it in place.
        model.score.to(one_engine.accelerator(device))
    if fill:
        one_engine.fill(model, jobs.weights_of(role))
    if role not in jobs.TRAINED:
        engine, *_ = deepspeed.initialize(model=model, config=settings)
        engine.eval()
        return engine
    optimizer = workload.plain_optimizer(work, workload.parameter_groups(work, model))
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    one_engine.compiled(engine, shard, device)
    return engine


class JobTraining:
    """Implements `dsregress.probe.framework.Training`. Each trained role has its own forward, backward and step in each
    micro-batch; scoring is part of the first one's forward."""

    def __init__(self, job: Any, engines: dict[str, Any], device: str, alone: bool) -> None:
        self._job, self._engines = job, engines
        self._alone = alone  #: without the other ranks, values are meaningless
        self._device = one_engine.accelerator(device)
        self.micro_batches = job.work.gradient_accumulation_steps * len(job.trained)
        self._rank = int(os.environ["RANK"])
        self._at_step = -1
        self._data: list[Any] = []
        self._losses: list[Any] = []
        self._loss: Any = None

    def next_batch(self) -> None:
        """Move on to the fixed data of the next step."""
        self._at_step += 1
        self._losses = []
        self._data = [
            self._job.data(self._at_step, self._rank, number, self._device)
            for number in range(self._job.work.gradient_accumulation_steps)
        ]

    def _whose(self, number: int) -> tuple[int, str]:
        micro_batch, role = divmod(number, len(self._job.trained))
        return micro_batch, self._job.trained[role]

    def forward(self, micro_batch: int) -> None:
        """Compute the loss of a micro-batch."""
        at, role = self._whose(micro_batch)
        if role == self._job.trained[0]:
            self._score(at)
        self._loss = self._job.loss(role, self._engines, self._data[at])

    def _score(self, at: int) -> None:
        import torch

        trained = [self._engines[role] for role in self._job.trained]
        for engine in trained:
            engine.eval()
        with torch.no_grad():
            self._data[at] = self._job.scored(self._engines, self._data[at])
        for engine in trained:
            engine.train()

    def backward(self, micro_batch: int) -> None:
        """Compute the gradients of a micro-batch."""
        _, role = self._whose(micro_batch)
        self._engines[role].backward(self._loss)
        self._losses.append(self._loss.detach())
        self._loss = None

    def step(self, micro_batch: int) -> None:
        """Take the step of a micro-batch, which updates the weights after the last one."""
        _, role = self._whose(micro_batch)
        self._engines[role].step()

    def loss(self) -> float | None:
        """Return the sum of the roles' losses."""
        if self._alone:
            return None
        return mean_loss(self._losses, self._job.work.gradient_accumulation_steps)

    def gradient_norm(self) -> float | None:
        """Return the norm of the gradients of all roles together; each role is clipped by its own norm."""
        if self._alone:
            return None
        norms = [self._engines[role].get_global_grad_norm() for role in self._job.trained]
        return None if None in norms else math.sqrt(sum(float(norm) ** 2 for norm in norms))

    def parameters(self) -> Mapping[str, Any] | None:
        """Return whole parameters by name; None if values mean nothing."""
        if self._alone:
            return None
        return {
            f"{role}.{name}": values
            for role in self._job.trained
            for name, values in whole_parameters(self._engines[role].module).items()
        }

    def configuration(self) -> dict[str, Any]:
        """Return the configuration in force, as dotted keys."""
        found: dict[str, Any] = {}
        for role, engine in self._engines.items():
            found.update(flatten(f"{role}.deepspeed", vars(engine._config)))
            found[f"{role}.engine.optimizer"] = type(engine.optimizer).__name__
            found[f"{role}.engine.model_dtype"] = str(next(engine.module.parameters()).dtype)
        return found


def judge(
    parameters: Mapping[str, object],
    device: str,
    shape: Mapping[str, Any],
    steps: int,
    trained: Mapping[str, object],
    numerics: Numerics,
) -> None:
    """Judge the trained parameters by plain PyTorch's; see `dsregress.probe.framework`."""

    from dsregress.probe.oracles import job_truth
    from dsregress.probe.workloads import jobs

    if int(os.environ["RANK"]) == 0:
        job_truth.judge_job(jobs.job_of(parameters, shape["vocab_size"]), shape, steps, trained, numerics)
