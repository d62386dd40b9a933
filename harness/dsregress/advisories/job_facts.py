"""The facts of a job: their names and words, and the facts that follow from others. Pure.

Most are the factors of the probe (`dsregress.probe.factors`), which conditions of advisories name. `FURTHER_FACTS` are those
that no cell varies by a parameter of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.errors import UsageError, no_such
from dsregress.probe.factor import Factor, switch
from dsregress.probe.factors import BY_NAME

_TRAINERS = ("none", "accelerate", "transformers", "trl")
_SCHEDULERS = ("none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest")

FURTHER_FACTS = (
    switch("lora", "LoRA"),
    Factor(
        name="trainer",
        title="trainer",
        values=_TRAINERS,
        known=_TRAINERS,
        words={
            "none": "a training loop of one's own",
            "accelerate": "accelerate",
            "transformers": "transformers' Trainer",
            "trl": "a trainer of TRL",
        },
    ),
    switch("saves_checkpoints", "saved checkpoints"),
    switch("resumes", "a run that resumes from a checkpoint"),
    switch("evaluates", "evaluation during training"),
    Factor(
        name="scheduler",
        title="scheduler",
        values=_SCHEDULERS,
        known=_SCHEDULERS,
        words={"none": "no `scheduler` in DeepSpeed's configuration"},
    ),
    Factor(name="warmup_steps", title="warmup steps", values=(0, 1), words={0: "no warmup steps"}, counted=True),
    Factor(
        name="accelerator",
        title="accelerator",
        values=("cuda", "cpu"),
        known=("cuda", "cpu"),
        words={"cuda": "CUDA", "cpu": "DeepSpeed's CPU accelerator"},
    ),
    Factor(name="card", title="card", values=("",), words={"": "no card"}),
    Factor(name="model_name", title="model", values=("",), words={"": "no model"}),
)

#: Every fact by its name.
FACTS: Mapping[str, Factor] = {**BY_NAME, **{one.name: one for one in FURTHER_FACTS}}


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


def _positive(stand_in: Any) -> Callable[[Any], Any]:
    """Return the function that replaces each number above zero by the one with which jobs were run."""
    return lambda value: stand_in if _is_number(value) and value > 0 else value


#: Fact -> function of a job's value that returns the value with which jobs were run in its place.
_STAND_INS: Mapping[str, Callable[[Any], Any]] = {
    "gradient_clipping": _positive(1.0),
    "lora_rank": _positive(8),
    "loss_scale": lambda value: None if _is_number(value) and value == 0 else _positive(256)(value),
    "hpz_partition_size": lambda value: None if value in (0, 1) else _positive(2)(value),
    "trainer": lambda value: "transformers" if value == "trl" else value,
}


def stand_in(name: str, value: Any) -> Any:
    """Return the value that was run in place of a job's: rank 8 for a LoRA of any rank, Trainer for TRL's subclasses."""
    return _STAND_INS[name](value) if name in _STAND_INS else value


_NOT_TWO_BACKWARDS = OneOf(tuple(one for one in BY_NAME["objective"].values if one != "two_backwards"))
#: transformers' Trainer, and TRL's, which are subclasses of it: one backward for each micro-batch, by the engine.
_OF_TRAINER = {
    "integration": "transformers",
    "model_outputs": "all",
    "backward_on": "engine",
    "no_sync": False,
    "objective": _NOT_TWO_BACKWARDS,
}

#: The value of the fact that others follow from.
_SAME: Any = object()

#: A fact, the values from which others follow, and these.
_CONSEQUENCES: Sequence[tuple[str, Callable[[Any], bool], Mapping[str, Any]]] = (
    ("lora", lambda value: value is True, {"lora_rank": 8}),
    ("lora", lambda value: value is False, {"lora_rank": 0, "lora_modules_to_save": "", "lora_autocast": False}),
    ("lora_rank", lambda value: value > 0, {"lora": True}),
    ("lora_rank", lambda value: value == 0, {"lora": False, "lora_modules_to_save": "", "lora_autocast": False}),
    ("evaluates", lambda value: value is False, {"evaluate": False, "evaluate_within": False}),
    ("evaluates", lambda value: value is True, {"evaluate": True}),
    ("evaluate", lambda value: value is True, {"evaluates": True}),
    ("resumes", lambda value: value is True, {"resume": True, "checkpoint": True}),
    ("resumes", lambda value: value is False, {"resume": False, "checkpoint": False, "universal": False}),
    ("resume", lambda value: value is True, {"resumes": True, "checkpoint": True}),
    ("scheduler", lambda value: value in ("none", "WarmupLR"), {"schedule": None}),
    ("scheduler", lambda value: value == "WarmupLR", {"warmup": True}),
    ("scheduler", lambda value: value != "WarmupLR", {"warmup": False}),
    ("scheduler", lambda value: value == "WarmupDecayLR", {"schedule": "WarmupDecayLR"}),
    ("scheduler", lambda value: value == "WarmupCosineLR", {"schedule": "WarmupCosineLR"}),
    ("schedule", lambda value: value is not None, {"scheduler": _SAME, "warmup": False}),
    ("trainer", lambda value: value in ("transformers", "trl"), _OF_TRAINER),
    ("trainer", lambda value: value == "accelerate", {"integration": "accelerate", "backward_on": "engine"}),
    ("trainer", lambda value: value == "none", {"integration": "none"}),
    ("zero_stage", lambda value: value != 3, {"zero_init": False, "offload_param": False, "hpz_partition_size": None}),
    ("zero_stage", lambda value: value == 0, {"offload_optimizer": False}),
    ("dtype", lambda value: value != "fp16", {"loss_scale": None}),
    ("card", lambda value: bool(value), {"accelerator": "cuda"}),
)


def _with_consequences(known: Mapping[str, Fact], unsettled: Iterable[str]) -> dict[str, Fact]:
    """Return the facts with all that follow from them and that no place states."""
    found = dict(known)
    closed = {*known, *unsettled}
    for name, holds, then in _CONSEQUENCES:
        fact = found.get(name)
        if fact is None or isinstance(fact.value, OneOf) or not holds(fact.value):
            continue
        for other, value in then.items():
            if other not in closed:
                own = fact.value if value is _SAME else value
                found[other] = Fact(name=other, value=own, source=fact.source)
                closed.add(other)
    return found


_YES, _NO = ("yes", "true", "on"), ("no", "false", "off")
_UNSET = ("unset", "none", "null", "default")


def said_fact(text: str) -> Fact:
    """Return the fact that the reader states as ``NAME=VALUE``. Raise UsageError with what it could be."""
    name, equals, written = (part.strip() for part in text.partition("="))
    factor = FACTS.get(name) or next((one for one in FACTS.values() if one.key and one.key == name), None)
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
