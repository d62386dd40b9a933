"""The factors of training that a fault may need, in one table: the values to try, and their words.

The first value of each is the simplest one, and that of the scenario ``minimal_training``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from dsregress.probe.adapters import DEEPSPEED, TRAINER

#: The scenario whose parameters are the simplest values.
SIMPLEST = "minimal_training"

#: Adapter -> the scenario of the simplest values that it trains.
SIMPLEST_OF = {
    DEEPSPEED: SIMPLEST,
    TRAINER: "minimal_trainer",
}


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a cell."""

    name: str
    title: str  #: before its values: ``ZeRO stage 1 or 2``
    alone: str = ""  #: its words without a value; empty: its title
    values: tuple[Any, ...]  #: the simplest first
    words: Mapping[Any, str] = MappingProxyType({})  #: the words for a value, in place of title and value
    further: tuple[Any, ...] = ()  #: values that an exploration tries as well; elsewhere only a cell's own counts
    api: str = ""  #: DeepSpeed's attribute that all values but the simplest call; releases without it cannot have them
    counted: bool = False  #: its values are ordered numbers
    configured: bool = False  #: a setting of the framework, which a user can change without training something else

    @property
    def noun(self) -> str:
        """The factor's words without a value."""
        return self.alone or self.title

    def value_in(self, parameters: Mapping[str, Any]) -> Any:
        """Return the value that a cell has; the simplest one if the cell names none."""
        return parameters.get(self.name, self.values[0])

    def limit(self, shown: Sequence[Any], hidden: Collection[Any]) -> Any:
        """Return the value above which all values show a finding, if several do; None if they do not differ from the others
        in that way."""
        if self.counted and hidden and len(shown) > 1 and all(value > max(hidden) for value in shown):
            return max(hidden)
        return None

    def text(self, shown: Sequence[Any], hidden: Collection[Any] = ()) -> str:
        """Return the values that show a finding, in words: ``ZeRO stage 1 or 2``, ``accumulation above 1``."""
        if (limit := self.limit(shown, hidden)) is not None:
            return f"{self.title} above {limit}"
        named = [self.words[value] for value in shown if value in self.words]
        unset = [f"{self.noun} not configured"] if None in shown and None not in self.words else []
        others = [_value(value) for value in shown if value not in self.words and value is not None]
        return either([*named, *unset, *([f"{self.title} {either(others)}"] if others else [])])


def either(texts: Sequence[str]) -> str:
    """Return ``1, 2 or 3``."""
    *first, last = texts or [""]
    return f"{', '.join(first)} or {last}" if first else last


#: Sizes in elements, as small against a tiny model as DeepSpeed's defaults are against a large one.
SIZES = {
    "reduce_bucket_size": 4096,
    "persistence_threshold": 0,
    "max_live_parameters": 30_000,
    "max_reuse_distance": 30_000,
}

#: With DeepSpeed's default a tiny model has no parameter that is partitioned, as the small ones of a large model.
_FURTHER_SIZES = {"persistence_threshold": (100_000,)}


#: Of the default, which no cell has, but a script may.
_WORDS_OF_SIZES = {
    "reduce_bucket_size": {
        SIZES["reduce_bucket_size"]: "a reduce_bucket_size that is smaller than a weight",
        None: "a reduce_bucket_size larger than every weight",
    }
}


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _switch(name: str, title: str, *, on: str = "", off: str = "", api: str = "", configured: bool = True) -> Factor:
    words = {True: on or title, False: off or f"no {re.sub('^an? ', '', title)}"}
    return Factor(name=name, title=title, values=(False, True), words=words, api=api, configured=configured)


def _explored(name: str, title: str, *, off: str, api: str = "") -> Factor:
    """Return a switch that only an exploration tries."""
    return Factor(name=name, title=title, values=(False,), further=(True,), words={True: title, False: off}, api=api)


def _setting(name: str, title: str, *values: Any, alone: str = "") -> Factor:
    """Return an optional setting."""
    return Factor(name=name, title=title, alone=alone, values=(None, *values), configured=True)


STAGE = Factor(name="zero_stage", title="ZeRO stage", values=(0, 1, 2, 3), configured=True)

FACTORS = (
    STAGE,
    # Three ranks divide no parameter of the tiny models, so that every share is padded.
    Factor(
        name="world_size",
        title="ranks",
        values=(1, 2),
        further=(3,),
        words={1: "one rank", 2: "two ranks", 3: "three ranks"},
        counted=True,
    ),
    Factor(name="gradient_accumulation_steps", title="gradient accumulation", values=(1, 2, 4), counted=True),
    Factor(
        name="model_outputs",
        title="a model's outputs",
        values=("loss", "all"),
        words={"loss": "a model that returns one tensor", "all": "a model that returns several tensors"},
    ),
    Factor(name="dtype", title="dtype", values=("fp32", "bf16", "fp16"), configured=True),
    Factor(
        name="gradient_clipping",
        title="gradient clipping",
        values=(0.0, 1.0, None),
        words={0.0: "clipping configured as off", 1.0: "clipping at 1.0", None: "clipping not configured"},
        configured=True,
    ),
    _switch(
        "zero_init", "zero.Init", on="a model built under zero.Init", off="a model that is whole before `initialize`"
    ),
    Factor(
        name="gradient_checkpointing",
        title="gradient checkpointing",
        values=("none", "reentrant", "non_reentrant"),
        words={
            "none": "no gradient checkpointing",
            "reentrant": "reentrant checkpointing",
            "non_reentrant": "non-reentrant checkpointing",
        },
        configured=True,
    ),
    _switch("offload_optimizer", "offload of the optimizer"),
    _switch("offload_param", "offload of the parameters"),
    Factor(
        name="gradient_accumulation_dtype",
        title="gradient accumulation dtype",
        values=(None, "fp32"),
        words={None: "gradient accumulation dtype not configured"},
        configured=True,
    ),
    Factor(
        name="objective",
        title="the loss",
        values=("next_token", "two_runs", "two_backwards", "several_outputs", "no_head"),
        words={
            "next_token": "a plain loss",
            "two_runs": "a loss over two forwards",
            "two_backwards": "two backwards in a micro-batch",
            "several_outputs": "a loss over several outputs",
            "no_head": "parameters without a gradient",
        },
    ),
    Factor(
        name="model",
        title="the model",
        values=("llama-tiny", "qwen2-tiny"),
        further=("llama-many", "mixtral-tiny"),
        words={
            "mixtral-tiny": "a mixture of experts",
            "llama-tiny": "untied weights",
            "qwen2-tiny": "tied weights and biases",
            "llama-many": "many small layers",
        },
    ),
    Factor(
        name="frozen",
        title="frozen parts",
        values=("", "layers.0"),
        further=("embed_tokens",),
        words={"": "all parameters trained"},
    ),
    Factor(name="lora_rank", title="adapters of rank", alone="adapters", values=(0, 8), words={0: "no adapters"}),
    Factor(
        name="lora_modules_to_save",
        title="adapters beside a trained",
        alone="modules trained beside adapters",
        values=("",),
        further=("lm_head",),
        words={"": "adapters alone"},
    ),
    Factor(
        name="lora_autocast",
        title="adapters in fp32",
        values=(False,),
        further=(True,),
        words={True: "adapters in fp32", False: "adapters in the model's dtype"},
    ),
    _switch("decay_groups", "two parameter groups", off="one parameter group", configured=False),
    Factor(
        name="empty_groups",
        title="a group without parameters",
        values=(False,),
        words={True: "a group without parameters", False: "no group without parameters"},
    ),
    Factor(
        name="learning_rate_decay",
        title="a learning rate that decays by",
        alone="decay of the learning rate",
        values=(1.0,),
        further=(0.5,),
        words={1.0: "a constant learning rate"},
    ),
    Factor(
        name="group_learning_rates",
        title="parameter groups of different learning rates",
        values=(False,),
        further=(True,),
        words={True: "parameter groups of different learning rates", False: "one learning rate"},
    ),
    Factor(
        name="warmup",
        title="a WarmupLR named in the configuration",
        values=(False,),
        further=(True,),
        words={True: "a WarmupLR named in the configuration", False: "no WarmupLR"},
        configured=True,
    ),
    # The first one without a warmup, as transformers resolves "auto".
    Factor(
        name="schedule",
        title="configured schedule",
        values=(None,),
        further=("WarmupDecayLR", "WarmupCosineLR"),
        words={None: "no other schedule named in the configuration"},
        configured=True,
    ),
    _switch("identical_micro_batches", "identical micro-batches", off="different micro-batches", configured=False),
    _setting("overlap_comm", "overlap_comm", False, True),
    _setting("round_robin_gradients", "round_robin_gradients", True),
    _setting("hpz_partition_size", "hpZ partition of", 2, alone="hpZ"),
    _setting("contiguous_gradients", "contiguous_gradients", False),
    _setting("reduce_scatter", "reduce_scatter", False),
    _setting("allgather_partitions", "allgather_partitions", False),
    _setting("all_reduce_for_fetch", "use_all_reduce_for_fetch_params", True),
    _setting("memory_efficient_linear", "memory_efficient_linear", False),
    _setting("sub_group_size", "sub-groups of", 20_000, alone="a size of sub-groups"),
    _setting("communication_dtype", "communication in", "fp32", alone="a dtype of communication"),
    _setting("prescale_gradients", "prescale_gradients", True),
    _setting("allgather_bucket_size", "allgather_bucket_size", 4096),
    _setting("multi_rank_bucket_allreduce", "use_multi_rank_bucket_allreduce", False),
    _setting("loss_scale", "a loss scale of", 256, alone="a loss scale that is not dynamic"),
    Factor(
        name="torch_autocast",
        title="torch_autocast",
        values=(False, True),
        words={True: "torch_autocast", False: "no torch_autocast"},
        configured=True,
    ),
    _setting("prefetch_bucket_size", "prefetch_bucket_size"),
    *(
        # Of the others nothing else is tried: a tiny model with the defaults is another job.
        Factor(
            name=name,
            title=name,
            values=(value,),
            further=_FURTHER_SIZES.get(name, ()),
            words=_WORDS_OF_SIZES.get(name, {}),
            configured=True,
        )
        for name, value in SIZES.items()
    ),
    Factor(
        name="integration",
        title="configured through",
        alone="the library that completes the configuration",
        values=("none", "transformers"),
        words={"none": "a configuration of one's own"},
        configured=True,
    ),
    Factor(
        name="optimizer",
        title="the optimizer",
        values=("passed", "configured"),
        words={"passed": "an optimizer that is passed", "configured": "an optimizer named in the configuration"},
        configured=True,
    ),
    _switch("leaf_modules", "layers as leaf modules", off="no leaf modules"),
    Factor(
        name="compile_backend",
        title="torch.compile with backend",
        alone="torch.compile",
        values=("none",),
        further=("eager",),
        words={"none": "no torch.compile"},
        configured=True,
    ),
    Factor(
        name="infinite_gradient_step",
        title="an infinite gradient in step",
        alone="infinite gradients",
        values=(None,),
        further=(1,),
        words={None: "finite gradients"},
    ),
    _switch("checkpoint", "a checkpoint that is saved and loaded", configured=False),
    _switch("evaluate", "an evaluation between steps", configured=False),
    _switch("forward_between", "a forward without gradients between forward and backward", configured=False),
    _switch("varying_length", "batches of varying length", off="batches of one length", configured=False),
    _switch("uneven_last", "a smaller last batch", off="batches of one size", configured=False),
    _switch("evaluate_within", "an evaluation between micro-batches", configured=False),
    _switch("resume", "a new engine that loads the checkpoint", configured=False),
    _switch("no_sync", "accumulation by the caller under no_sync", api="no_sync", configured=False),
    Factor(
        name="backward_on",
        title="backward on",
        values=("engine", "loss", "several"),
        further=("divided",),
        api="scale",
        words={
            "engine": "engine.backward",
            "divided": "engine.backward(scale_wrt_gas=False) on a loss that the caller divided",
            "loss": "loss.backward()",
            "several": "tensor.backward(gradient) on several losses",
        },
    ),
    _switch("second_engine", "two engines in one process", off="one engine", configured=False),
    _switch("destroyed_engine", "an engine that was destroyed before", configured=False),
    Factor(
        name="reference",
        title="engines without an optimizer",
        values=("",),
        further=("beside", "destroyed"),
        words={
            "": "no engine without an optimizer",
            "beside": "an engine without an optimizer beside it",
            "destroyed": "an engine without an optimizer that was destroyed before",
        },
    ),
    _switch("marks_boundary", "accumulation by the caller, who marks its boundary", configured=False),
    _switch("gather_weights", "weights that are gathered between steps", configured=False),
    _switch("empty_cache", "empty_partition_cache between steps", configured=False),
    _explored(
        "unwrapped",
        "hooks that are taken off before a step, as around a generation",
        off="hooks that are left on",
        api="unwrap_model_for_generation",
    ),
    _explored("zero_grad", "optimizer.zero_grad() before each step", off="no optimizer.zero_grad()"),
    Factor(
        name="halved_gradients",
        title="gradients that the user halves",
        values=("",),
        further=("full", "local"),
        api="safe_set_full_grad",
        words={
            "": "gradients that the user leaves",
            "full": "gradients that the user halves by safe_set_full_grad",
            "local": "gradients that the user halves by safe_set_local_grad",
        },
    ),
    _explored(
        "grouped_frozen",
        "frozen parameters in the optimizer's groups",
        off="trained parameters alone in the optimizer's groups",
    ),
    _explored("caller_autocast", "torch.autocast around the forward", off="no torch.autocast around the forward"),
    _switch("module_hooks", "the user's hooks on layers", configured=False),
    _switch(
        "uneven_ranks", "batches of other lengths on other ranks", off="the same length on all ranks", configured=False
    ),
    _switch("universal", "a universal checkpoint", configured=False),
    Factor(
        name="exported",
        title="weights exported by",
        alone="how weights are exported",
        values=("", "zero_to_fp32", "16bit"),
        words={
            "": "weights that are not exported",
            "zero_to_fp32": "weights read by zero_to_fp32",
            "16bit": "weights saved by save_16bit_model",
        },
    ),
)

BY_NAME = {factor.name: factor for factor in FACTORS}


def varied_in(base: Mapping[str, Any]) -> tuple[Factor, ...]:
    """Return the factors that a scenario with these parameters leaves open; one with another first value is part of the
    job."""
    return tuple(one for one in FACTORS if one.name in base and among(base[one.name], one.values[:1]))


def values_of(factor: Factor, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values to try: the table's, and the cell's own."""
    own = factor.value_in(parameters)
    return factor.values if among(own, factor.values) else (*factor.values, own)


def among(value: Any, values: Sequence[Any]) -> bool:
    """Return True if ``values`` contain the value. Unlike with ``in``, 0 is not False and 1 is not True."""
    return any(value == other and type(value) is type(other) for other in values)
