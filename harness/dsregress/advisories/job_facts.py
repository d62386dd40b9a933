"""The facts of a job: their names and words, and the facts that follow from others. Pure.

Most are the factors of the probe (`dsregress.probe.factors`); ``job_facts.json`` has the others, some of which only a reader
states, and what follows from what.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from packaging.specifiers import SpecifierSet

from dsregress.errors import UsageError, no_such
from dsregress.probe.factor import Factor, among, switch
from dsregress.probe.factor_files import decode_factor
from dsregress.probe.factors import BY_NAME

#: The facts of a job, by their names: a value, or `OneOf`.
Facts = Mapping[str, Any]

#: Facts that everybody knows of a job of their own, in the order in which they are asked for.
COMMON_FACTS = (
    *("zero_stage", "dtype", "trainer", "lora_rank", "gradient_accumulation_steps", "gradient_checkpointing"),
    *("checkpoint", "resume", "evaluate", "offload_optimizer", "offload_param", "gradient_clipping", "world_size"),
    *("scheduler", "warmup_steps", "device", "task", "fsdp", "quantized", "torch_compile", "lora_modules_to_save"),
)


class OneOf(msgspec.Struct, frozen=True):
    """The value of a fact that is known to be one of several."""

    values: tuple[Any, ...]


#: The value of a fact of which a job has nothing: no stage of ZeRO without DeepSpeed. It shows no problem.
NO_VALUE = OneOf(())


class Consequence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts that follow from some values of another."""

    fact: str
    of: tuple[object, ...] | None = None  #: the values from which they follow
    but: tuple[object, ...] = ()  #: or all values but these
    then: dict[str, object] = {}
    same: tuple[str, ...] = ()  #: facts that have the same value
    never: dict[str, object] = {}  #: facts that have any other value of their factor
    without: tuple[str, ...] = ()  #: facts that have no value: the job has nothing of the kind
    reason: str = ""  #: for what the entry alone does not show

    def follow_from(self, value: object) -> dict[str, object]:
        """Return the facts that follow from a value of the fact."""
        if not among(value, self.of) if self.of is not None else among(value, self.but):
            return {}
        return {**self.settled, **dict.fromkeys(self.same, value)}

    @property
    def settled(self) -> dict[str, object]:
        """The facts that follow with a value of their own."""
        others = {
            name: OneOf(tuple(one for one in BY_NAME[name].values if one != excluded))
            for name, excluded in self.never.items()
        }
        return {**self.then, **others, **dict.fromkeys(self.without, NO_VALUE)}


class ReleaseRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that releases of packages choose, for jobs with these facts."""

    facts: dict[str, tuple[Any, ...]] = {}
    packages: dict[str, str] = {}  #: package -> its releases, as a specifier
    value: Any = None  #: None: it is not known

    def is_of(self, facts: Facts, versions: Mapping[str, str]) -> bool:
        """Return True for a job with all of it."""
        of_facts = all(name in facts and among(facts[name], values) for name, values in self.facts.items())
        return of_facts and all(
            name in versions and SpecifierSet(limits).contains(versions[name], prereleases=True)
            for name, limits in self.packages.items()
        )


class ChosenValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact whose value a program leaves to its packages, so that it changes with their releases."""

    among: tuple[Any, ...]  #: the values of which one is chosen, as a job states it
    by: tuple[ReleaseRule, ...]  #: the first that is of a job decides
    reason: str = ""


class UsualValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values that a fact has in most jobs, where it is not stated."""

    values: tuple[Any, ...]
    beside: tuple[str, ...] = ()  #: packages that a job has for which that is so
    unless: tuple[str, ...] = ()  #: and those that it has not
    reason: str = ""  #: for what the entry alone does not show


class _FactTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``job_facts.json``."""

    switches: dict[str, str]  #: facts that are only on or off, with their words
    facts: dict[str, dict[str, object]]  #: entries of `dsregress.probe.factor_files`
    consequences: tuple[Consequence, ...]
    chosen: dict[str, ChosenValue]
    usual: dict[str, tuple[UsualValue, ...]]
    aliases: dict[str, str]  #: what people say for a fact
    meant: dict[str, str]  #: what people say for a fact with its value -> how to state it


_TABLE = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=_FactTables)

#: The facts that are no factors, by their names.
FURTHER_FACTS: Mapping[str, Factor] = {
    **{name: decode_factor(name, "", entry) for name, entry in _TABLE.facts.items()},
    **{name: switch(name, words) for name, words in _TABLE.switches.items()},
}

#: Every fact by its name.
FACTS: Mapping[str, Factor] = {**BY_NAME, **FURTHER_FACTS}

CONSEQUENCES: Sequence[Consequence] = _TABLE.consequences

USUAL: Mapping[str, Sequence[UsualValue]] = _TABLE.usual

CHOSEN: Mapping[str, ChosenValue] = _TABLE.chosen


def chosen_value(name: str, facts: Facts, versions: Mapping[str, str]) -> Any:
    """Return the value of a fact that a job has: of one that it leaves to its packages, that which their releases choose."""
    value, chosen = facts[name], CHOSEN.get(name)
    if chosen is None or not isinstance(value, OneOf) or {*value.values} != {*chosen.among}:
        return value
    rule = next((one for one in chosen.by if one.is_of(facts, versions)), None)
    return value if rule is None or rule.value is None else rule.value


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of a job, with the place that states it."""

    name: str
    value: Any
    source: str  #: "ds_zero3.json: zero_optimization.stage"
    yields: bool = False  #: it is usual, and gives way to what another place states, or what follows from that


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that two places state differently. Then it is one of both."""

    first: Fact
    second: Fact


def merged_facts(read: Iterable[Fact], said: Iterable[Fact] = ()) -> tuple[dict[str, Fact], tuple[Conflict, ...]]:
    """Return the facts by name, with those that follow from them, and the conflicts among those that were ``read``: such a
    fact is one of the values that are stated. What the reader ``said`` counts alone. Of what is usual the last counts, also
    for a fact that is otherwise known as one of several values."""
    read, said = list(read), list(said)
    found: dict[str, Fact] = {}
    conflicts: dict[str, Conflict] = {}
    for fact in (one for one in read if not one.yields):
        first = found.setdefault(fact.name, fact)
        agreed = _agreed(first, fact)
        if agreed is None:
            conflicts.setdefault(fact.name, Conflict(first=first, second=fact))
        else:
            found[fact.name] = agreed
    given = {fact.name: fact for fact in said}
    unsettled = {name: one for name, one in conflicts.items() if name not in given}
    known = _with_consequences({**found, **{name: _either(one) for name, one in unsettled.items()}, **given})
    usual = {
        fact.name: fact
        for fact in read
        if fact.yields and fact.name not in unsettled and (fact.name not in known or _narrows(fact, known[fact.name]))
    }
    return _with_consequences({**known, **usual}), tuple(unsettled.values())


def _narrows(usual: Fact, fact: Fact) -> bool:
    return isinstance(fact.value, OneOf) and not isinstance(usual.value, OneOf) and _agreed(fact, usual) is usual


def _either(conflict: Conflict) -> Fact:
    """Return the fact that two places state differently: one of their values."""
    stated = (*values_of(conflict.first.value), *values_of(conflict.second.value))
    values = dict.fromkeys(stand_in(conflict.first.name, value) for value in stated)
    source = f"{conflict.first.source}, or {conflict.second.source}"
    return Fact(name=conflict.first.name, value=OneOf(tuple(values)), source=source)


def values_of(value: object) -> tuple[object, ...]:
    """Return the values that a fact can have."""
    return value.values if isinstance(value, OneOf) else (value,)


def contradiction(said: Sequence[Fact]) -> tuple[Fact, Fact] | None:
    """Return two statements of the reader's that exclude each other, directly or by what follows from them; None if there
    are none."""
    alone = [merged_facts((), (one,))[0] for one in said]
    for (one, mine), (other, theirs) in itertools.combinations(zip(said, alone, strict=True), 2):
        differing = {name for name in mine.keys() & theirs.keys() if _agreed(mine[name], theirs[name]) is None}
        followed = {
            name: theirs[name] if name == one.name else mine[name] for name in differing & {one.name, other.name}
        }
        if differing - {one.name, other.name} or len(followed) == len({one.name, other.name}):
            return one, other
        if any(_rules_out_others(fact.value) for fact in followed.values()):
            return one, other
    return None


def _rules_out_others(value: object) -> bool:
    """Return True if a value that follows leaves no room for one that is stated: there is none of the kind, or only these
    are possible. Any other one is what is usual, and gives way."""
    return value in (False, None) or (isinstance(value, OneOf) and value != NO_VALUE)


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


def _with_consequences(known: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return the facts with all that follow from them and that no place states. Of a fact that is one of several values only
    what follows from each of them does."""
    found = dict(known)
    before = -1
    while before < len(found):  # what follows may have consequences that stand before it in the table
        before = len(found)
        for consequence in CONSEQUENCES:
            fact = found.get(consequence.fact)
            followed = [] if fact is None else [consequence.follow_from(value) for value in values_of(fact.value)]
            if fact is None or not followed or any(one != followed[0] for one in followed):
                continue
            for other, value in followed[0].items():
                found.setdefault(other, Fact(name=other, value=value, source=fact.source))
    if "gradient_accumulation_steps" not in found:
        found.update({fact.name: fact for fact in _accumulation(found)})
    return found


def _accumulation(known: Mapping[str, Fact]) -> Iterator[Fact]:
    """Yield the accumulation that is left of a step's micro-batches for each rank. DeepSpeed needs two of its batch sizes
    and the accumulation (`DeepSpeedConfig._configure_train_batch_size`)."""
    batches, ranks = known.get("micro_batches_per_step"), known.get("world_size")
    if batches is None or ranks is None or not (isinstance(batches.value, int) and isinstance(ranks.value, int)):
        return
    if ranks.value > 0 and batches.value > 0 and batches.value % ranks.value == 0:
        source = f"{batches.source} on {ranks.value} ranks ({ranks.source})"
        yield Fact(name="gradient_accumulation_steps", value=batches.value // ranks.value, source=source)


_YES, _NO = ("yes", "true", "on"), ("no", "false", "off")
_UNSET = ("", "unset", "none", "null", "default")

#: Values of facts that have nothing of the kind.
_NOTHING = (None, "", "none")


def said_fact(text: str) -> Fact:
    """Return the fact that the reader states as ``NAME=VALUE``. Raise UsageError with what it could be."""
    name, equals, written = (part.strip() for part in text.partition("="))
    factor = FACTS.get(_TABLE.aliases.get(name, name)) or next(
        (one for one in FACTS.values() if one.key and one.key == name), None
    )
    if factor is None and name in _TABLE.meant:
        raise UsageError(f"no such fact: {name}", where="--set", hint=f"write --set {_TABLE.meant[name]}")
    if factor is None:
        raise no_such("fact", name, FACTS, where="--set", most=12)
    if not equals or not (written or "" in factor.explored):
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
    return "|".join(said_text(one) for one in values) if values != [""] else "none|TEXT"


def said_text(value: Any) -> str:
    """Return a value as a reader states it."""
    if value is None or value == "":
        return "none" if value == "" else "unset"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _said_value(factor: Factor, written: str) -> Any:
    if factor.name in CHOSEN and written.lower() in _YES:  # the packages choose
        return OneOf(CHOSEN[factor.name].among)
    values = (*factor.explored, *factor.known)
    for value in values:
        if written == said_text(value) or written == str(value):
            return value
    if any(isinstance(one, bool) for one in values) and written.lower() in (*_YES, *_NO):
        return written.lower() in _YES
    if written.lower() in (*_UNSET, *_NO):
        for nothing in (one for one in _NOTHING if one in values):
            return nothing
    numbers = [one for one in values if _is_number(one)]
    if numbers and not factor.known:
        try:
            number = float(written)
        except ValueError:
            raise _no_value(factor, written) from None
        least = min(numbers) if factor.counted else min(0, *numbers)
        if not number >= least:
            raise UsageError(
                f"{factor.name} is never {written}", where="--set", hint=f"write a number from {least:g} on"
            )
        return number if any(isinstance(one, float) for one in numbers) or not number.is_integer() else int(number)
    if factor.known or any(isinstance(one, bool) for one in values) or numbers:
        raise _no_value(factor, written)
    return written


def _no_value(factor: Factor, written: str) -> UsageError:
    return UsageError(f"{factor.name} is never {written!r}", where="--set", hint=f"write {choices(factor)}")
