"""Jobs of several models, independent of the framework: their roles, and what each role computes.

The policy and the critic are trained, the reference and the reward model are frozen. A micro-batch is scored first,
without gradients, by all models in their current state; then each trained role runs its forward, backward and step, the
policy first. Frameworks and the truth run the functions here on their own models, which can be anything that is called
like a transformers model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from dsregress.probe.workloads import alignment, preference_losses, workload
from dsregress.probe.workloads.alignment import Data
from dsregress.probe.workloads.workload import Workload

POLICY, CRITIC, REFERENCE, REWARD = "policy", "critic", "reference", "reward"
#: In the order in which models are built and trained.
ROLES = (POLICY, CRITIC, REFERENCE, REWARD)
TRAINED = (POLICY, CRITIC)
#: Roles whose model returns one number per token instead of logits.
_VALUED = (CRITIC, REWARD)


@dataclasses.dataclass(frozen=True)
class JobParameters:
    """The part of a scenario's parameters that defines a job."""

    job: str = "actor_critic"  #: a key of `JOBS`
    roles: str = "policy+critic+reference+reward"  #: the output of a missing role is drawn from a seed
    kl_coefficient: float = 0.0  #: of the divergence from the reference, in the policy's loss
    frozen_offload_param: bool = False  #: parameters of the frozen models on the host
    gpu_memory_utilization: float = 0.0  #: share of each card that a generation engine next to the job keeps


class Job:
    """One kind of job on one rank. Raises ValueError for roles that this kind of job does not have."""

    #: The roles that it can have; a policy is required.
    possible: ClassVar[tuple[str, ...]] = ROLES

    def __init__(self, work: Workload, parameters: JobParameters, vocabulary: int) -> None:
        named = parameters.roles.split("+")
        unknown = sorted(set(named) - set(self.possible))
        if unknown or POLICY not in named:
            raise ValueError(
                f"roles={parameters.roles}: {parameters.job} needs a policy, and can have: {', '.join(self.possible[1:])}"
            )
        self.work, self.parameters, self.vocabulary = work, parameters, vocabulary
        self.roles = tuple(role for role in ROLES if role in named)
        self.trained = tuple(role for role in self.roles if role in TRAINED)

    def data(self, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu") -> Data:
        """Return the data of one micro-batch of one rank, a function of these numbers alone."""
        raise NotImplementedError

    def scored(self, models: Mapping[str, object], data: Data) -> Data:
        """Return the data with everything that the losses need from the models before the first update. Call it without
        gradients."""
        return data

    def loss(self, role: str, models: Mapping[str, object], data: Data) -> torch.Tensor:
        """Return the scalar loss of a trained role."""
        raise NotImplementedError


class ActorCritic(Job):
    """PPO with all its models in one place, as OpenRLHF and Open-Reasoner-Zero train: the log-probabilities of the
    policy and of the reference, the critic's values and the reward of each whole sample make the experience."""

    def data(self, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu") -> Data:
        """Return samples with fixed rewards and values."""
        data = alignment.samples(self.work, self.vocabulary, step, rank, micro_batch, device)
        count, predicted = data["answers"].shape
        if self.work.identical_micro_batches:
            micro_batch = 0
        reward = alignment.draw(count, of=(step, rank, micro_batch, 1))
        values = 0.1 * alignment.draw(count, predicted, of=(step, rank, micro_batch, 2))
        return {**data, "reward": reward.to(device), "values": values.to(device)}

    def scored(self, models: Mapping[str, object], data: Data) -> Data:
        """Return the data with log-probabilities, returns and advantages by the models."""
        found = dict(data)
        found["old"] = alignment.log_probabilities(models[POLICY], data)
        if REFERENCE in models:
            found["reference"] = alignment.log_probabilities(models[REFERENCE], data)
        if CRITIC in models:
            found["values"] = alignment.token_values(models[CRITIC], data)[:, :-1]
        if REWARD in models:
            found["reward"] = alignment.token_values(models[REWARD], data)[:, -1]
        # A sample is judged as a whole, once it is complete: at its last token.
        answers = data["answers"]
        rewards = torch.nn.functional.pad(found.pop("reward").unsqueeze(-1), (answers.shape[1] - 1, 0))
        found["returns"], found["advantages"] = preference_losses.returns_and_advantages(
            rewards, found["values"], answers
        )
        return found

    def loss(self, role: str, models: Mapping[str, object], data: Data) -> torch.Tensor:
        """Return the value loss of the critic, the PPO loss of any other role."""
        answers = data["answers"]
        if role == CRITIC:
            new = alignment.token_values(models[role], data)[:, :-1]
            return preference_losses.value_loss(new, data["values"], data["returns"], answers)
        new = alignment.log_probabilities(models[role], data)
        loss = preference_losses.policy_loss(new, data["old"], data["advantages"], answers)
        if "reference" in data:
            loss = loss + self.parameters.kl_coefficient * preference_losses.divergence(new, data["reference"], answers)
        return loss


class Preference(Job):
    """DPO with a separate reference model. With LoRA a single model is enough: the objective ``preference``."""

    possible = (POLICY, REFERENCE)

    def data(self, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu") -> Data:
        """Return pairs of a chosen and a rejected answer."""
        return alignment.pairs(self.work, self.vocabulary, step, rank, micro_batch, device)

    def loss(self, role: str, models: Mapping[str, object], data: Data) -> torch.Tensor:
        """Return the DPO loss of the policy."""
        return alignment.preference(models[role], data, models.get(REFERENCE))


JOBS: dict[str, type[Job]] = {"actor_critic": ActorCritic, "preference": Preference}


def job_of(parameters: Mapping[str, object], vocabulary: int) -> Job:
    """Return the job that a scenario's parameters describe. Raise ValueError for an unknown job or unknown roles."""
    chosen = workload.pick(JobParameters, parameters)
    if chosen.job not in JOBS:
        raise ValueError(f"no such job: {chosen.job} (known: {', '.join(JOBS)})")
    return JOBS[chosen.job](workload.pick(Workload, parameters), chosen, vocabulary)


def weights_of(role: str) -> str:
    """Return the prefix of the names from which weights are made: the reference begins as the policy, the reward model
    differs from the critic."""
    return "reward." if role == REWARD else ""


def build_role(role: str, work: Workload, config: object, dtype: torch.dtype) -> torch.nn.Module:
    """Return the model of one role, its weights as transformers leaves them. Frozen models are in evaluation mode, in
    which transformers checkpoints nothing; only the policy has adapters."""
    plain = work if role == POLICY else dataclasses.replace(work, lora_rank=0)
    model = _with_values(plain, config, dtype) if role in _VALUED else workload.build_model(plain, config, dtype)
    return model if role in TRAINED else model.eval()


class ValueModel(torch.nn.Module):
    """A language model's body with one number per token instead of the next token, like OpenRLHF's critic and reward
    models. Not transformers' own ``...ForTokenClassification``: the second one that is built under zero.Init in a
    process comes out without a single parameter (observed with transformers 4.57.6 and DeepSpeed 0.16.8)."""

    def __init__(self, body: torch.nn.Module, hidden_size: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = body
        self.score = torch.nn.Linear(hidden_size, 1, bias=False, dtype=dtype)

    def forward(self, **inputs: object) -> Any:
        from transformers.modeling_outputs import TokenClassifierOutput

        return TokenClassifierOutput(logits=self.score(self.model(**inputs).last_hidden_state))


def _with_values(work: Workload, config: Any, dtype: torch.dtype) -> torch.nn.Module:
    import transformers

    body: Any = transformers.AutoModel.from_config(config, **workload.of_type(dtype))
    workload.checkpointed(work, body)
    return ValueModel(body, config.hidden_size, dtype).train()
