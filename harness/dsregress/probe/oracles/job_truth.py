"""The truth about a job of several models: the same roles, data and losses in plain PyTorch (see `truth`)."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

import torch

from dsregress.probe.border.wire import Numerics
from dsregress.probe.oracles import truth, truth_store
from dsregress.probe.oracles.reference_training import Trained, Trainee
from dsregress.probe.workloads import jobs, workload
from dsregress.probe.workloads.jobs import Job


def train_job(
    job: Job, shape: Mapping[str, object], steps: int, dtype: torch.dtype, perturbations: int | None = None
) -> Trained:
    """Train as `reference_training.train_plainly` does, with every role in one process that sees all ranks'
    micro-batches. Parameters are named ``role.name``; losses are summed over the roles, and the gradient norm is that of
    all their gradients together."""
    work = job.work
    roles = {
        role: Trainee(
            work,
            jobs.build_role(role, work, workload.model_configuration(work, shape), dtype),
            jobs.weights_of(role),
            perturbations=perturbations,
        )
        for role in job.roles
    }
    models = {role: trainee.model for role, trainee in roles.items()}
    trained = {role: roles[role] for role in job.trained}
    share = 1 / (work.world_size * work.gradient_accumulation_steps)
    losses, norms = [], []
    for step in range(steps):
        total = 0.0
        for rank in range(work.world_size):
            for micro_batch in range(work.gradient_accumulation_steps):
                data = job.data(step, rank, micro_batch)
                with torch.no_grad():
                    data = job.scored(models, data)
                for role, trainee in trained.items():
                    total += trainee.backward(functools.partial(job.loss, role, models, data), share=share)
        losses.append(total)
        norms.append(math.sqrt(sum(trainee.update() ** 2 for trainee in trained.values())))
    return Trained(losses, norms, _parameters_by_role(trained, "start"), _parameters_by_role(trained, "parameters"))


def judge_job(
    job: Job, shape: Mapping[str, object], steps: int, trained: Mapping[str, torch.Tensor], numerics: Numerics
) -> None:
    """Judge the job as `truth.judge_training` does."""
    file = truth_store.file_of(job.work, shape, steps, dataclasses.asdict(job.parameters))
    truth.judge_training(
        job.work, shape, steps, trained, numerics, functools.partial(train_job, job, shape, steps), file
    )


def _parameters_by_role(trained: Mapping[str, Trainee], what: str) -> dict[str, torch.Tensor]:
    return {f"{role}.{name}": v for role, trainee in trained.items() for name, v in getattr(trainee, what).items()}
