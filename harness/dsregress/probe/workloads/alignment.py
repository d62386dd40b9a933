"""Data and losses of reinforcement learning from feedback and of preference training: the inputs of
`dsregress.probe.workloads.preference_losses`, and how a model produces them.

``data["ids"]`` has a row per sequence, or all samples of the micro-batch concatenated in one row (``packed``),
without padding, as OpenRLHF packs them; then ``data["positions"]`` restarts with each sample, by which transformers
recognizes a pack. A single sample in its row is packed already. Everything else has a row per sample, and a column per
token but the first, which is not predicted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping

import torch

from dsregress.probe.workloads import preference_losses, workload
from dsregress.probe.workloads.workload import Workload

Data = Mapping[str, torch.Tensor]

_SEED = 7116
#: Standard deviation of the old policy's log-probabilities from those of a policy for which all tokens are equally likely,
#: as they nearly are for a model of small random weights: enough that some tokens are clipped and some are not.
_OLD_POLICY_DEVIATION = 0.3
#: TRL's default ``beta`` of GRPO at the time of the report (0.17).
GROUP_KL_COEFFICIENT = 0.04


def samples(
    work: Workload, vocabulary: int, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu"
) -> dict[str, torch.Tensor]:
    """Return the experience of PPO's actor: prompts with their answers, the log-probabilities that the answers' tokens
    had when they were sampled, and an advantage per sample: its reward relative to those of its prompt's other
    samples."""
    if work.identical_micro_batches:
        micro_batch = 0
    ids = workload.batch(work, vocabulary, step, rank, micro_batch)
    count, length = ids.shape
    drawn = draw(count, length - 1, of=(step, rank, micro_batch))
    displaced = (
        work.old_policy_displacement * drawn.sign() if work.old_policy_displacement else _OLD_POLICY_DEVIATION * drawn
    )
    old = displaced - math.log(vocabulary)
    first = (rank * 257 + micro_batch) * count
    advantages = torch.stack([_advantage(work, step, first + number) for number in range(count)])
    return {
        **_padded_rows(work, ids, device),
        "answers": _answer_mask(work, count).to(device),
        "old": old.to(device),
        "advantages": advantages.unsqueeze(-1).to(device),
    }


def policy_gradient(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return PPO's clipped loss of one model on `samples`."""
    return preference_losses.policy_loss(
        log_probabilities(model, data), data["old"], data["advantages"], data["answers"]
    )


def pairs(
    work: Workload, vocabulary: int, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu"
) -> dict[str, torch.Tensor]:
    """Return two answers to each prompt: all the chosen ones, then all the rejected ones, for one forward pass of both,
    as LLaMA-Factory's and TRL's trainers concatenate them. ``micro_batch_size`` counts pairs."""
    both = dataclasses.replace(work, micro_batch_size=2 * work.micro_batch_size)
    ids = workload.batch(both, vocabulary, step, rank, micro_batch)
    ids[work.micro_batch_size :, : work.prompt_length] = ids[: work.micro_batch_size, : work.prompt_length]
    return {"ids": ids.to(device), "answers": _answer_mask(work, len(ids)).to(device)}


def preference(model: torch.nn.Module, data: Data, reference: object = None) -> torch.Tensor:
    """Return DPO's loss on `pairs`. The reference scores them between the model's forward pass and its backward pass,
    without gradients: it is a separate model or, without one, the model with its adapters disabled."""
    new = of_answers(model, data)
    with torch.no_grad():
        if reference is not None:
            old = of_answers(reference, data)
        else:
            with without_adapters(model):
                old = of_answers(model, data)
    return preference_losses.dpo_loss(*new.chunk(2), *old.chunk(2))


def group_samples(
    work: Workload, vocabulary: int, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu"
) -> dict[str, torch.Tensor]:
    """Return `samples` with the answers' columns alone, so that only their logits are computed, as in TRL's GRPO."""
    found = samples(work, vocabulary, step, rank, micro_batch, device)
    first = max(work.prompt_length - 1, 0)
    return {**found, "answers": found["answers"][:, first:], "old": found["old"][:, first:]}


def group_policy_gradient(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return GRPO's loss of a model with adapters on `group_samples`. The model without them is the reference, which
    scores the samples first."""
    with torch.no_grad(), without_adapters(model):
        reference = log_probabilities(model, data)
    new = log_probabilities(model, data)
    loss = preference_losses.policy_loss(new, data["old"], data["advantages"], data["answers"])
    return loss + GROUP_KL_COEFFICIENT * preference_losses.divergence(new, reference, data["answers"])


def log_probabilities(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return the log-probabilities of the samples' last tokens, as many columns as ``data["answers"]`` has."""
    ids, count = data["ids"], data["answers"].shape[1]
    if "positions" in data:
        logits = model(input_ids=ids, position_ids=data["positions"]).logits
        return _by_sample(preference_losses.log_probabilities(logits, ids), data)
    if count == ids.shape[1] - 1:
        return preference_losses.log_probabilities(model(input_ids=ids).logits, ids)
    return preference_losses.log_probabilities(
        model(input_ids=ids, logits_to_keep=count + 1).logits, ids[:, -count - 1 :]
    )


def of_answers(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return the log-probability of each whole answer: (samples,)."""
    return (log_probabilities(model, data) * data["answers"]).sum(-1)


def token_values(model: torch.nn.Module, data: Data) -> torch.Tensor:
    """Return the output of a model with one number per token, for the samples up to each token: (samples, tokens)."""
    ids = data["ids"]
    inputs = {"input_ids": ids} if "positions" not in data else {"input_ids": ids, "position_ids": data["positions"]}
    output: torch.Tensor = model(**inputs).logits.squeeze(-1).float()
    return output.reshape(data["answers"].shape[0], -1)


@contextlib.contextmanager
def without_adapters(model: torch.nn.Module) -> Iterator[None]:
    """Disable the adapters of a peft model, in an engine or bare, within the block. Raise ValueError for a model without
    adapters."""
    inner = model if hasattr(model, "disable_adapter") else getattr(model, "module", model)
    if not hasattr(inner, "disable_adapter"):
        raise ValueError("a preference objective needs a reference: a separate model, or adapters (lora_rank)")
    with inner.disable_adapter():
        yield


def draw(*shape: int, of: tuple[int, ...]) -> torch.Tensor:
    """Return normally distributed numbers that depend on ``of`` alone."""
    seed = _SEED
    for number in of:
        seed = (seed * 4099 + number) % (1 << 62)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _advantage(work: Workload, step: int, sample: int) -> torch.Tensor:
    group, member = divmod(sample, work.samples_per_prompt)
    return preference_losses.group_advantages(draw(work.samples_per_prompt, of=(step, 1 << 20, group)))[member]


def _padded_rows(work: Workload, ids: torch.Tensor, device: torch.device | str) -> dict[str, torch.Tensor]:
    count, length = ids.shape
    if not work.packed or count == 1:
        return {"ids": ids.to(device)}
    positions = torch.arange(length).repeat(count).unsqueeze(0)
    return {"ids": ids.reshape(1, -1).to(device), "positions": positions.to(device)}


def _by_sample(columns: torch.Tensor, data: Data) -> torch.Tensor:
    """Reshape the columns of a pack: (1, all tokens - 1) -> (samples, tokens - 1), without predictions of one sample
    from another."""
    count, predicted = data["answers"].shape
    return torch.nn.functional.pad(columns, (0, 1)).view(count, predicted + 1)[:, :-1]


def _answer_mask(work: Workload, count: int) -> torch.Tensor:
    """Return a mask, 1 for columns about a token of the answer, 0 for those about the prompt: (samples, tokens - 1)."""
    columns = torch.arange(1, work.sequence_length)
    return (columns >= work.prompt_length).float().repeat(count, 1)
