"""The declaration of a factor: a parameter of a job that a fault may need. Standard library only, as the host reads it too.

A factor is one object, declared in a file under `dsregress.probe.factors`: its values and their words, what it requires, its
keys in DeepSpeed's configuration, and its part of a script that shows a fault without the harness.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

#: Dotted keys of ``zero_optimization``, in a factor's ``key``.
ZERO = "zero_optimization."

#: Keys in ``zero_optimization`` with this prefix have no meaning below stage 3.
_STAGE_3 = f"{ZERO}stage3_"

#: The place of factors that have none of their own: behind the others, in the order of their names.
_LAST = 1_000_000

_AS_SIMPLEST: Any = object()


@dataclasses.dataclass(frozen=True)
class Need:
    """Values of a factor that require values of another one, because they cannot be configured otherwise."""

    other: str
    needed: tuple[Any, ...]
    values: tuple[Any, ...] = ()  #: none: all that are tried but the simplest


def need(other: str, *needed: object, by: tuple[object, ...] = ()) -> Need:
    """Return the requirement of one of the values ``needed`` of another factor, ``by`` these values."""
    return Need(other, needed, by)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configured:
    """All that a factor's part of DeepSpeed's configuration depends on."""

    values: Mapping[str, Any]  #: of all factors
    optimizer: Mapping[str, Any] | None = None  #: its type and its parameters, if there is one
    learning_rate: float = 0.001
    pins_memory: bool = False  #: of what is offloaded
    loss_scale_power: int = 8  #: the first loss scale of fp16 is two to this

    @property
    def autocasts(self) -> bool:
        """Weights in fp32 are computed with in the job's dtype, by DeepSpeed's autocast or the caller's."""
        return bool(self.values["torch_autocast"] or self.values["caller_autocast"])

    @property
    def accumulates_itself(self) -> bool:
        """The caller, not the configuration, determines which micro-batches make a step."""
        return bool(self.values["no_sync"] or self.values["marks_boundary"])


#: Returns the entries that a factor's value adds to the configuration.
Configure = Callable[[Any, Configured], Mapping[str, Any]]


#: Where a script may have a factor's part.
MOMENTS = (
    "made",  #: transformers has made the model ``name``
    "model",  #: the model ``name`` is whole, and has ``layers``
    "truth",  #: before plain PyTorch's training
    "functions",  #: functions are defined
    "rates",  #: an expression: the learning rate's factor by step, for the schedule of ``optimizer``
    "before_engine",
    "engine",  #: the engine ``name`` is made
    "after_engine",
    "before_step",
    "evaluation",  #: before a step, on its first batch
    "before_batches",  #: before the first micro-batch of a step
    "around_forward",  #: an expression: a context manager
    "after_forward",
    "before_backward",
    "around_backward",  #: an expression: a context manager
    "backward",  #: in place of ``engine.backward({{ share }})``, of the loss ``scalar``
    "before_update",  #: before the engine's step, on the last micro-batch
    "after_update",  #: after the engine's step
    "end_of_batch",
    "end_of_step",
    "after_training",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fragment:
    """A factor's part of a script, in plain Python as Jinja templates: see ``dsregress/reproduce/templates``."""

    #: a moment -> template, in which all parameters of the cell and the macros of ``calls.jinja`` are known
    at: Mapping[str, str] = dataclasses.field(default_factory=dict)
    imports: tuple[str, ...] = ()  #: modules of the standard library
    package: str = ""  #: a package that the script needs besides
    names: tuple[str, ...] = ()  #: that it imports from the package
    varies_batches: bool = False  #: batches depend on their number, so that a function makes them
    computes_losses: bool = False  #: the loss is computed in a further place
    makes_models: bool = False  #: further models are made
    needs_class: bool = False  #: the model of layers is a class
    is_between: bool = False  #: something happens between a forward and its backward, or around them
    names_rank: bool = False  #: a rank's number is needed before the engine exists, or often
    needs_moments: bool = False  #: the optimizer has to have state
    needs_more_steps: bool = False  #: what it changes begins in the third step

    def __post_init__(self) -> None:
        unknown = sorted(set(self.at) - set(MOMENTS))
        if unknown:
            raise ValueError(f"a script has no such moment: {', '.join(unknown)} (known: {', '.join(MOMENTS)})")


#: The part of a script of a factor that its common templates cover.
IN_EVERY_SCRIPT = Fragment()


#: A call in the training loop, on a model or an engine, with the factor's value.
LoopCall = Callable[[Any, Any], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hooks:
    """A factor's calls in a job on DeepSpeed's engine, if its value is not the simplest. What they import is of measured
    environments, so it is imported where it is called."""

    model_made: LoopCall | None = None  #: on the model, before it has its weights
    engine_made: LoopCall | None = None  #: on the engine
    before_step: LoopCall | None = None  #: on the engine, before the first forward of a step
    before_update: LoopCall | None = None  #: on the engine, before its step on the last micro-batch
    after_update: LoopCall | None = None  #: on the engine, after its step on the last micro-batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Factor:
    """One parameter of a job."""

    name: str
    title: str  #: before its values: ``ZeRO stage 1 or 2``
    alone: str = ""  #: its words without a value; empty: its title
    group: str = "others"  #: in the documentation's table
    place: int = _LAST  #: in all tables, and in the order in which factors are tried
    named_at: int = _LAST  #: its place in the names of variants, which stored results have
    values: tuple[Any, ...]  #: the simplest first
    words: Mapping[Any, str] = dataclasses.field(
        default_factory=dict
    )  #: the words for a value, in place of title and value
    unnamed: Any = _AS_SIMPLEST  #: the value of a job that does not name the factor
    further: tuple[Any, ...] = ()  #: values that an exploration tries as well; elsewhere only a cell's own counts
    known: tuple[Any, ...] = ()  #: all values that the adapters know, if they are few
    needs: tuple[Need, ...] = ()
    api: str = ""  #: DeepSpeed's attribute that all values but the simplest call; releases without it cannot have them
    counted: bool = False  #: its values are ordered numbers
    configured: bool = False  #: a setting of the framework, which a user can change without training something else
    is_size: bool = False  #: its simplest value is as small against a tiny model as the default against a large one
    in_truth: bool = True  #: plain PyTorch's numbers depend on it
    of_trainer: bool = False  #: transformers' Trainer has it as well
    key: str = ""  #: the dotted key of DeepSpeed's configuration that has its value, if it is not None
    configure: Configure | None = None  #: in place of a key
    hooks: Hooks = dataclasses.field(default_factory=Hooks)
    script: Fragment | None = None  #: None: no script can have it, unless a key says it all
    reason: str = ""  #: for what its declaration alone does not show

    @property
    def noun(self) -> str:
        """The factor's words without a value."""
        return self.alone or self.title

    @property
    def simplest(self) -> Any:
        """The value that stands for the factor's absence."""
        return self.values[0]

    @property
    def default(self) -> Any:
        """The value of a job that does not name the factor."""
        return self.simplest if self.unnamed is _AS_SIMPLEST else self.unnamed

    def is_active(self, values: Mapping[str, object]) -> bool:
        """Return True if these parameters have another value than the simplest."""
        return bool(self.value_in(values) != self.simplest)

    @property
    def is_in_scripts(self) -> bool:
        """A script can have all its values."""
        return bool(self.script or self.key or self.configure)

    @property
    def explored(self) -> tuple[object, ...]:
        """All values that an exploration tries, the simplest first."""
        return (*self.values, *self.further)

    def entries(self, job: Configured) -> Mapping[str, Any]:
        """Return the entries of DeepSpeed's configuration that the factor's value in a job adds."""
        value = job.values[self.name]
        if self.configure is not None:
            return self.configure(value, job)
        if not self.key or value is None or (self.key.startswith(_STAGE_3) and job.values["zero_stage"] != 3):
            return {}
        found: Any = value
        for part in reversed(self.key.split(".")):
            found = {part: found}
        entries: Mapping[str, Any] = found
        return entries

    def value_in(self, parameters: Mapping[str, object]) -> object:
        """Return the value that a cell has; the simplest one if the cell names none."""
        return parameters.get(self.name, self.simplest)

    def limit(self, shown: Sequence[object], hidden: Collection[Any]) -> object:
        """Return the value above which all values show a finding, if several do; None if they do not differ from the others
        in that way."""
        if self.counted and hidden and len(shown) > 1 and all(value > max(hidden) for value in shown):
            return max(hidden)
        return None

    def text(self, shown: Sequence[object], hidden: Collection[object] = ()) -> str:
        """Return the values that show a finding, in words: ``ZeRO stage 1 or 2``, ``accumulation above 1``."""
        if (limit := self.limit(shown, hidden)) is not None:
            return f"{self.title} above {limit}"
        named = [self.words[value] for value in shown if value in self.words]
        unset = [f"{self.noun} not configured"] if None in shown and None not in self.words else []
        others = [_value_text(value) for value in shown if value not in self.words and value is not None]
        return either([*named, *unset, *([f"{self.title} {either(others)}"] if others else [])])


def either(texts: Sequence[str]) -> str:
    """Return ``1, 2 or 3``."""
    *first, last = texts or [""]
    return f"{', '.join(first)} or {last}" if first else last


def among(value: object, values: Sequence[object]) -> bool:
    """Return True if ``values`` contain the value. Unlike with ``in``, 0 is not False and 1 is not True."""
    return any(value == other and type(value) is type(other) for other in values)


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def switch(name: str, title: str, *, on: str = "", off: str = "", **declared: Any) -> Factor:
    """Return a factor that is off or on."""
    words = {True: on or title, False: off or f"no {re.sub('^an? ', '', title)}"}
    return Factor(name=name, title=title, **{"values": (False, True), "words": words, **declared})


def explored_switch(name: str, title: str, *, off: str, **declared: Any) -> Factor:
    """Return a switch that only an exploration turns on."""
    return switch(name, title, off=off, values=(False,), further=(True,), **declared)
