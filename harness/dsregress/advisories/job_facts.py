"""The facts of a job: their names and words, and the facts that follow from others. Pure.

Most are the factors of the probe (`dsregress.probe.factors`), which conditions of advisories name; the others are those of
`dsregress.advisories.advisory.FURTHER_FACTS`, and a few that only a reader states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.advisories.advisory import FURTHER_FACTS
from dsregress.errors import UsageError, no_such
from dsregress.probe.factor import Factor, among, switch
from dsregress.probe.factors import BY_NAME

_SCHEDULERS = ("none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest")
_TASKS = ("sft", "dpo", "grpo", "ppo", "gkd", "reward", "pretrain")

#: The facts that are no factors, save those that are only on or off.
_OF_SEVERAL_VALUES = (
    Factor(
        name="scheduler",
        title="scheduler",
        values=_SCHEDULERS,
        known=_SCHEDULERS,
        words={"none": "no `scheduler` in DeepSpeed's configuration"},
    ),
    Factor(name="warmup_steps", title="warmup steps", values=(0, 1), words={0: "no warmup steps"}, counted=True),
    Factor(
        name="device",
        title="device",
        values=("cuda", "cpu"),
        known=("cuda", "cpu"),
        words={"cuda": "GPUs", "cpu": "DeepSpeed's CPU accelerator"},
    ),
    Factor(name="task", title="task", values=_TASKS, known=_TASKS),
    Factor(name="max_prompt_length", title="max_prompt_length", values=(None, 512)),
    Factor(name="initial_scale_power", title="initial_scale_power", values=(None, 16)),
    Factor(name="card", title="card", values=("",), words={"": "no card"}),
    Factor(name="model_name", title="model", values=("",), words={"": "no model"}),
)
_SWITCHES = {**FURTHER_FACTS, "lora": "LoRA"}
_DECLARED = {one.name: one for one in _OF_SEVERAL_VALUES}

#: Every fact by its name.
FACTS: Mapping[str, Factor] = {
    **BY_NAME,
    **_DECLARED,
    **{name: switch(name, words) for name, words in _SWITCHES.items() if name not in _DECLARED},
}

#: What people say for a fact.
_ALIASES = {"resumes": "resume", "evaluates": "evaluate", "accelerator": "device", "gpu": "card", "model": "model_name"}


class OneOf(msgspec.Struct, frozen=True):
    """The value of a fact that is known to be one of several."""

    values: tuple[Any, ...]


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of a job, with the place that states it."""

    name: str
    value: Any
    source: str  #: "ds_zero3.json: zero_optimization.stage"


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that two places state differently. Then it is not known."""

    first: Fact
    second: Fact


def merged_facts(read: Iterable[Fact], said: Iterable[Fact] = ()) -> tuple[dict[str, Fact], tuple[Conflict, ...]]:
    """Return the facts by name, with those that follow from them, and the conflicts among those that were ``read``. What the
    reader ``said`` counts alone."""
    found: dict[str, Fact] = {}
    conflicts: dict[str, Conflict] = {}
    for fact in read:
        first = found.setdefault(fact.name, fact)
        agreed = _agreed(first, fact)
        if agreed is None:
            conflicts.setdefault(fact.name, Conflict(first=first, second=fact))
        else:
            found[fact.name] = agreed
    given = {fact.name: fact for fact in said}
    unsettled = {name: one for name, one in conflicts.items() if name not in given}
    known = {name: fact for name, fact in {**found, **given}.items() if name not in unsettled}
    return _with_consequences(known, unsettled), tuple(unsettled.values())


def _agreed(first: Fact, second: Fact) -> Fact | None:
    """Return the more certain one of two statements; None if they contradict each other."""
    if first.value == second.value:
        return first
    if isinstance(first.value, OneOf):
        return second if stand_in(second.name, second.value) in first.value.values else None
    if isinstance(second.value, OneOf):
        return first if stand_in(first.name, first.value) in second.value.values else None
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class StandIn(msgspec.Struct, frozen=True, kw_only=True):
    """The value with which jobs were run in place of a job's."""

    positive: Any  #: of every other number above zero
    absent: tuple[int, ...] = ()  #: numbers that stand for no value


STAND_INS: Mapping[str, StandIn] = {
    "gradient_clipping": StandIn(positive=1.0),
    "lora_rank": StandIn(positive=8),
    "loss_scale": StandIn(positive=256, absent=(0,)),
    "hpz_partition_size": StandIn(positive=2, absent=(0, 1)),
}


def stand_in(name: str, value: Any) -> Any:
    """Return the value that was run in place of a job's: rank 8 for a LoRA of any rank, Trainer for TRL's subclasses."""
    found = STAND_INS.get(name)
    if found is None or not _is_number(value):
        return value
    return None if value in found.absent else found.positive if value > 0 else value


_NOT_TWO_BACKWARDS = OneOf(tuple(one for one in BY_NAME["objective"].values if one != "two_backwards"))

#: The value of the fact that others follow from.
SAME = "the same value"

_OF_TRAINER = {  # and of TRL's and LLaMA-Factory's, which are subclasses: one backward per micro-batch, by the engine
    "integration": "transformers",
    "accelerate_launch": True,
    "model_outputs": "all",
    "backward_on": "engine",
    "no_sync": False,
    "objective": _NOT_TWO_BACKWARDS,
}
_WITHOUT_LORA = {"lora_modules_to_save": "", "lora_autocast": False, "autocast_adapter_dtype": False}
_ONLY_IN_STAGE_3 = {"zero_init": False, "offload_param": False, "hpz_partition_size": None}


class Consequence(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that follow from another one."""

    fact: str
    of: tuple[Any, ...] | None = None  #: from these values of it; None: from all
    but: tuple[Any, ...] = ()  #: from all values save these
    then: Mapping[str, Any]

    def holds(self, value: Any) -> bool:
        """Return True if the facts follow from this value."""
        return among(value, self.of) if self.of is not None else not among(value, self.but)


CONSEQUENCES: Sequence[Consequence] = (
    Consequence(fact="lora", of=(True,), then={"lora_rank": 8}),
    Consequence(fact="lora", of=(False,), then={"lora_rank": 0}),
    Consequence(fact="lora_rank", but=(0,), then={"lora": True}),
    Consequence(fact="lora_rank", of=(0,), then={"lora": False, **_WITHOUT_LORA}),
    Consequence(fact="autocast_adapter_dtype", then={"lora_autocast": SAME}),
    Consequence(fact="lora_autocast", then={"autocast_adapter_dtype": SAME}),
    Consequence(fact="evaluate", of=(False,), then={"evaluate_within": False}),
    Consequence(fact="resume", of=(True,), then={"checkpoint": True}),
    Consequence(fact="checkpoint", of=(False,), then={"resume": False, "universal": False, "load_universal": False}),
    Consequence(fact="scheduler", of=("none", "WarmupLR"), then={"schedule": None}),
    Consequence(fact="scheduler", of=("WarmupLR",), then={"warmup": True}),
    Consequence(fact="scheduler", but=("WarmupLR",), then={"warmup": False}),
    Consequence(fact="scheduler", but=("none", "WarmupLR"), then={"schedule": SAME}),
    Consequence(fact="schedule", but=(None,), then={"scheduler": SAME, "warmup": False}),
    Consequence(fact="task", of=("sft", "pretrain"), then={"objective": "next_token"}),
    Consequence(fact="trainer", of=(True,), then=_OF_TRAINER),
    Consequence(fact="integration", of=("accelerate",), then={"accelerate_launch": True, "backward_on": "engine"}),
    Consequence(fact="integration", of=("none",), then={"accelerate_launch": False, "trainer": False}),
    Consequence(fact="integration", but=("transformers",), then={"trainer": False}),
    Consequence(fact="zero_stage", but=(3,), then=_ONLY_IN_STAGE_3),
    Consequence(fact="zero_stage", of=(0,), then={"offload_optimizer": False}),
    Consequence(fact="dtype", but=("fp16",), then={"loss_scale": None}),
    Consequence(fact="model_name", but=("",), then={"transformers_model": True}),  # of its hub, or a folder of its form
    Consequence(fact="card", but=("",), then={"device": "cuda"}),
)


def _with_consequences(known: Mapping[str, Fact], unsettled: Iterable[str]) -> dict[str, Fact]:
    """Return the facts with all that follow from them and that no place states."""
    found = dict(known)
    closed = {*known, *unsettled}
    for one in CONSEQUENCES:
        fact = found.get(one.fact)
        if fact is None or isinstance(fact.value, OneOf) or not one.holds(fact.value):
            continue
        for other, value in one.then.items():
            if other not in closed:
                own = fact.value if value == SAME else value
                found[other] = Fact(name=other, value=own, source=fact.source)
                closed.add(other)
    return found


_YES, _NO = ("yes", "true", "on"), ("no", "false", "off")
_UNSET = ("unset", "none", "null", "default")


def said_fact(text: str) -> Fact:
    """Return the fact that the reader states as ``NAME=VALUE``. Raise UsageError with what it could be."""
    name, equals, written = (part.strip() for part in text.partition("="))
    factor = FACTS.get(_ALIASES.get(name, name)) or next(
        (one for one in FACTS.values() if one.key and one.key == name), None
    )
    if factor is None:
        raise no_such("fact", name, FACTS, where="--set", most=12)
    if not equals or not written:
        raise UsageError(f"{name} without a value", where="--set", hint=f"write {name}={choices(factor)}")
    value = _said_value(factor, written)
    return Fact(name=factor.name, value=value, source=f"--set {factor.name}")


def choices(factor: Factor) -> str:
    """Return the values that a reader can state: ``yes|no``, ``0|1|2|3``."""
    values = [*factor.known, *(one for one in factor.explored if one not in factor.known)]
    if any(isinstance(one, bool) for one in values):
        return "yes|no" if None not in values else "yes|no|unset"
    numeric = [one for one in values if _is_number(one)]
    if numeric and not factor.known:
        return "N|unset" if None in values else "N"
    return "|".join(said_text(one) for one in values if one != "") or "TEXT"


def said_text(value: Any) -> str:
    """Return a value as a reader states it."""
    if value is None:
        return "unset"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _said_value(factor: Factor, written: str) -> Any:
    values = (*factor.explored, *factor.known)
    for value in values:
        if written == said_text(value) or written == str(value):
            return value
    if any(isinstance(one, bool) for one in values) and written.lower() in (*_YES, *_NO):
        return written.lower() in _YES
    if None in values and written.lower() in _UNSET:
        return None
    numbers = [one for one in values if _is_number(one)]
    if numbers and not factor.known:
        try:
            number = float(written)
        except ValueError:
            raise _no_value(factor, written) from None
        return number if any(isinstance(one, float) for one in numbers) or not number.is_integer() else int(number)
    if factor.known or any(isinstance(one, bool) for one in values) or numbers:
        raise _no_value(factor, written)
    return written


def _no_value(factor: Factor, written: str) -> UsageError:
    return UsageError(f"{factor.name} is never {written!r}", where="--set", hint=f"write {choices(factor)}")
