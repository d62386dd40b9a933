"""Training that is broken in known ways: plain PyTorch with one fault stands for a framework that has it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from dsregress.probe.oracles import job_truth, reference_training
from dsregress.probe.oracles.reference_training import Trained, Trainee
from dsregress.probe.workloads import workload


class _OneLayersGradient(Trainee):
    """The gradients of one decoder layer are nine tenths of what they must be."""

    def update(self) -> float:
        for name, gradient in self._sums.items():
            if ".layers.1." in f".{name}":
                gradient *= 0.9
        return super().update()


class _LostMicroBatch(Trainee):
    """The last micro-batch of a step reaches no gradient."""

    micro_batches = 0
    per_step = 1

    def backward(self, *losses: Callable[[], torch.Tensor], share: float) -> float:
        self.micro_batches += 1
        kept = {name: gradient.clone() for name, gradient in self._sums.items()}
        loss = super().backward(*losses, share=share)
        if self.micro_batches % self.per_step == 0:
            self._sums = kept
        return loss


class _OneRanksNorm(Trainee):
    """Gradients are clipped by the norm of half of the parameters, as if a rank forgot to add the others' shares up."""

    def update(self) -> float:
        whole, half = list(self._sums.values()), list(self._sums.values())[::2]
        norm = math.sqrt(sum(float(gradient.double().pow(2).sum()) for gradient in half))
        clip, self._clip = self._clip, None
        for gradient in whole:
            gradient *= clip / (norm + 1e-6) if clip and norm > clip else 1.0
        super().update()
        self._clip = clip
        return norm


class _DecayOfVectors(Trainee):
    """Vectors decay where they must not, and do not where they must."""

    def __init__(self, work: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(work, *args, **kwargs)
        for group in list(self._adam.param_groups):
            vectors = [values for values in group["params"] if values.dim() == 1]
            if vectors:
                group["params"] = [values for values in group["params"] if values.dim() != 1]
                decay = 0.0 if group["weight_decay"] else 0.1
                self._adam.param_groups.append({**group, "params": vectors, "weight_decay": decay})
        self._schedule = workload.scheduler(work, self._adam)  # a learning rate for each group


#: What is wrong -> a trainee that does it.
FAULTS: dict[str, type[Trainee]] = {
    "one layer's gradient x 0.9": _OneLayersGradient,
    "one micro-batch lost": _LostMicroBatch,
    "norm of one rank": _OneRanksNorm,
    "decay of vectors": _DecayOfVectors,
}


def trained_with(
    fault: str, micro_batches: int, train: Callable[[torch.dtype, int | None], Trained], dtype: Any
) -> Trained:
    """A job's training with one of `FAULTS`; ``micro_batches`` is how many all ranks have in a step."""
    with _in_place_of_trainee(type("Faulty", (FAULTS[fault],), {"per_step": micro_batches})):
        return train(dtype, None)


@contextlib.contextmanager
def _in_place_of_trainee(faulty: type[Trainee]) -> Iterator[None]:
    with mock.patch.object(reference_training, "Trainee", faulty), mock.patch.object(job_truth, "Trainee", faulty):
        yield
