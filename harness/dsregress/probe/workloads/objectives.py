"""The data and the losses of one micro-batch, each loss with its own backward.

Chosen by the scenario's parameter ``objective``, and shared by the adapters, the truth (`dsregress.probe.oracles.truth`)
and the plain pass of the memory oracle (`dsregress.probe.oracles.plain_memory`). A new one is a line in `OBJECTIVES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dsregress.probe.workloads import alignment
from dsregress.probe.workloads.workload import Workload, batch

#: The tensors of one micro-batch of one rank, by name. Functions of a seed: every stack sees the same.
Data = Mapping[str, torch.Tensor]

#: Returns a scalar for a model (the framework's engine, or the bare module) and data.
Loss = Callable[[Any, Data], torch.Tensor]


def token_ids(
    work: Workload, vocabulary: int, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu"
) -> Data:
    """Return ``ids``, shape (micro_batch_size, sequence_length)."""
    return {"ids": batch(work, vocabulary, step, rank, micro_batch, device)}


def answer_data(
    work: Workload, vocabulary: int, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu"
) -> Data:
    """Return `token_ids` with ``labels`` of the same shape: all but the first token, which is never a target. Releases
    differ in whether they count it, so it is marked as prompt (-100) here."""
    ids = batch(work, vocabulary, step, rank, micro_batch, device)
    return {"ids": ids, "labels": _after_prompt(ids, 1)}


def uneven_answers(
    work: Workload, vocabulary: int, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu"
) -> Data:
    """Return `answer_data` with a prompt that grows from micro-batch to micro-batch, and is the same on all ranks."""
    ids = batch(work, vocabulary, step, rank, micro_batch, device)
    return {"ids": ids, "labels": _after_prompt(ids, 1 + (work.sequence_length - 2) * (micro_batch % 4) // 4)}


def _after_prompt(ids: torch.Tensor, prompt: int) -> torch.Tensor:
    return torch.where(torch.arange(ids.shape[-1], device=ids.device) < prompt, -100, ids)


def same_for_all(data: Data) -> int:
    """Return 1: every micro-batch has the same weight."""
    return 1


def counted_tokens(data: Data) -> int:
    """Return the number of tokens over which a loss over ``labels`` is the mean."""
    return int((data["labels"] != -100).sum())


@dataclass(frozen=True)
class Objective:
    """``losses`` in their order: each is a forward, followed by its own backward; the micro-batch's loss is their sum.
    ``data`` is called with (work, vocabulary, step, rank, micro_batch, device). A step's loss is the mean over all
    ranks' micro-batches, each with its ``weight``."""

    losses: tuple[Loss, ...]
    data: Callable[..., Data] = token_ids
    weight: Callable[[Data], int] = same_for_all
    runs: int = 1  #: of the module with gradients, behind each loss

    def all_data(self, work: Workload, vocabulary: int, step: int) -> Iterator[Data]:
        """Yield the data of all ranks in one step."""
        for rank in range(work.world_size):
            for micro_batch in range(work.gradient_accumulation_steps):
                yield self.data(work, vocabulary, step, rank, micro_batch)


def next_token(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return the model's own next-token loss."""
    return _loss(model(input_ids=data["ids"], labels=data["ids"]))


def answer_loss(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return the model's own loss over the answer's tokens."""
    return _loss(model(input_ids=data["ids"], labels=data["labels"]))


def _loss(output: Any) -> torch.Tensor:
    """Return the loss of a model that returns several tensors, or the loss alone (``Workload.model_outputs``)."""
    loss: torch.Tensor = output if isinstance(output, torch.Tensor) else output.loss
    return loss


def next_token_reversed(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return the next-token loss of the reversed sequence: other data from the same ids."""
    return next_token(model, {"ids": data["ids"].flip(-1)})


def of_two_runs(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return one loss from the same module run twice, as preference losses do with the chosen and the rejected answer."""
    return (next_token(model, data) + next_token_reversed(model, data)) / 2


def of_several_outputs(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return one loss from the output of several layers: hidden states from the middle and the end, and the logits."""
    out = model(input_ids=data["ids"], labels=data["ids"], output_hidden_states=True)
    middle, last = out.hidden_states[len(out.hidden_states) // 2], out.hidden_states[-1]
    loss: torch.Tensor = out.loss + 0.1 * middle.float().pow(2).mean() + 0.01 * last.float().pow(2).mean()
    return loss


def without_the_head(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return a loss that leaves only the parameters of the head without a gradient."""
    out = model(input_ids=data["ids"], output_hidden_states=True)
    loss: torch.Tensor = out.hidden_states[-1].float().sin().mean()
    return loss


OBJECTIVES = {
    "next_token": Objective((next_token,)),
    "fine_tuning": Objective((answer_loss,), answer_data, counted_tokens),
    "uneven_fine_tuning": Objective((answer_loss,), uneven_answers, counted_tokens),
    "two_runs": Objective((of_two_runs,), runs=2),
    "two_backwards": Objective((next_token, next_token_reversed)),
    "several_outputs": Objective((of_several_outputs,)),
    "no_head": Objective((without_the_head,)),
    "policy_gradient": Objective((alignment.policy_gradient,), alignment.samples),
    "group_policy_gradient": Objective((alignment.group_policy_gradient,), alignment.group_samples),
    "preference": Objective((alignment.preference,), alignment.pairs),
}


class _Infinite(torch.autograd.Function):
    """Keeps the value, and makes the gradient infinite."""

    @staticmethod
    def forward(ctx: object, loss: torch.Tensor) -> torch.Tensor:
        return loss.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * torch.inf


def with_infinite_gradient(loss: torch.Tensor) -> torch.Tensor:
    """Simulate an overflow in backward: the loss is unchanged, and no gradient behind it is finite."""
    infinite: torch.Tensor = _Infinite.apply(loss)
    return infinite


def objective_of(work: Workload) -> Objective:
    """Return the objective of a workload. Raise ValueError for an unknown one."""
    if work.objective not in OBJECTIVES:
        raise ValueError(f"no such objective: {work.objective} (known: {', '.join(OBJECTIVES)})")
    return OBJECTIVES[work.objective]
