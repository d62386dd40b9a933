"""A scenario's parameters that define what is computed, in groups by what they are about. Pure data."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class ModelParameters:
    """The model, and what is done to it before it trains."""

    model: str = "llama-tiny"
    dtype: str = "bf16"  #: fp32, bf16 or fp16
    attention: str = "sdpa"  #: transformers' attn_implementation
    model_outputs: str = "all"  #: as transformers', with logits; or "loss": the model returns that tensor alone
    gradient_checkpointing: str = "none"  #: none, reentrant or non_reentrant
    frozen: str = ""  #: parameters with this in their names are not trained


@dataclasses.dataclass(frozen=True)
class AdapterParameters:
    """Adapters by peft, whose own words the fields are (see `dsregress.probe.workloads.lora`)."""

    lora_rank: int = 0  #: 0: none
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    lora_targets: str = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"
    lora_modules_to_save: str = ""  #: trained whole, in addition to the adapters
    lora_autocast: bool = False  #: peft's default: adapters of a model in half precision are made in fp32


@dataclasses.dataclass(frozen=True)
class BatchParameters:
    """The batches of all ranks."""

    sequence_length: int = 64  #: tokens
    micro_batch_size: int = 1  #: sequences per rank and micro-batch
    gradient_accumulation_steps: int = 1
    world_size: int = 2
    identical_micro_batches: bool = False  #: the gradient of several identical ones must be that of one
    varying_length: bool = False  #: sequences are shorter from micro-batch to micro-batch and from step to step
    uneven_last: bool = False  #: the last micro-batch of every second step has half of the sequences
    uneven_ranks: bool = False  #: sequences are shorter from rank to rank


@dataclasses.dataclass(frozen=True)
class SampleParameters:
    """The samples of training by feedback (see `dsregress.probe.workloads.alignment`)."""

    prompt_length: int = 0  #: tokens at the start of each sequence that no loss is about
    samples_per_prompt: int = 4  #: whose rewards advantages are normalised over
    #: distance of the old policy's log-probabilities from those of equally likely tokens, in either direction; None: drawn.
    #: Drawn ones may also be at the edges of the clipped loss, and rounding then decides if a token has a gradient. One
    #: nat is so far beyond the edges that sound training has one truth.
    old_policy_displacement: float | None = None
    packed: bool = False  #: the sequences of a micro-batch concatenated in one row


@dataclasses.dataclass(frozen=True)
class UpdateParameters:
    """Clipping, the optimizer with its groups, and the learning rate."""

    gradient_clipping: float | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 0.1
    learning_rate_decay: float = 1.0  #: the learning rate of each step is that of the step before times this
    decay_groups: bool = False  #: two parameter groups: matrices decay, vectors do not
    empty_groups: bool = False  #: a group without parameters is passed on, as transformers' Trainer does
    group_learning_rates: bool = False  #: the second of two parameter groups learns at a tenth of the rate
    grouped_frozen: bool = False  #: frozen ones are in the optimizer's groups as well: all of `model.parameters()`
    warmup: bool = False  #: the learning rate rises as the configuration's WarmupLR says
    schedule: str | None = None  #: another schedule that the configuration names, a key of `workload.SCHEDULES`
    infinite_gradient_step: int | None = None  #: in this step the last rank's first backward yields infinities
    #: the caller reads each step's gradients and halves them: whole ("full"), or each rank its share ("local")
    halved_gradients: str = ""

    @property
    def configured_schedule(self) -> str | None:
        """Return the learning rate's schedule that the configuration names, None if it names none."""
        return "WarmupLR" if self.warmup else self.schedule


@dataclasses.dataclass(frozen=True)
class LoopParameters:
    """Calls in and around the training loop, and their order."""

    checkpoint: bool = False  #: saved after the first step, changed by another step, and loaded: nothing may differ
    resume: bool = False  #: the ``checkpoint`` is loaded by a new engine, as after a restart
    universal: bool = False  #: the ``checkpoint`` is converted to a universal one before it is loaded
    exported: str = ""  #: how the trained weights are read: from the engine, or from a file of this kind
    evaluate: bool = False  #: every step ends with a forward in evaluation mode and without gradients
    evaluate_within: bool = False  #: as ``evaluate``, also behind a step's first micro-batch
    forward_between: bool = False  #: a forward without gradients between each forward and its backward
    no_sync: bool = False  #: the caller accumulates: all but the last micro-batch of a step run under ``no_sync``
    marks_boundary: bool = False  #: the caller accumulates, and marks the last micro-batch of a step
    #: the object of ``backward``: the engine, the loss, or several losses with a gradient of their own; "divided": the
    #: engine, with a loss that the caller has divided by the micro-batches of a step
    backward_on: str = "engine"
    second_engine: bool = False  #: another engine of the same kind trains between the steps
    destroyed_engine: bool = False  #: another engine of the same kind was created before, and destroyed
    #: an engine without an optimizer evaluates between the steps ("beside"), or existed before ("destroyed")
    reference: str = ""
    unwrapped: bool = False  #: the framework's hooks are off around a forward before each step, as for a generation
    caller_autocast: bool = False  #: fp32 weights, and torch's autocast around the caller's forward

    @property
    def caller_accumulates(self) -> bool:
        """Return True if the framework is configured without accumulation, and the caller accumulates."""
        return self.no_sync or self.marks_boundary
