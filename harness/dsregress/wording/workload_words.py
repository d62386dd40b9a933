"""Workloads in words, short enough for a line of a report."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter

import msgspec

from dsregress.messages import COMMA, OR, Message, Text, joined, name_list
from dsregress.model import split_workload, variant_values
from dsregress.probe.launch_line import INSTALLED, LaunchLineError, parse
from dsregress.wording.quantities import shortened

FILE = Path(__file__).with_suffix(".toml")

#: The key of the words for all other values of a parameter.
_ANY = "{value}"

#: In commands that a reader has to complete, in place of what starts his program.
OPEN_LAUNCH_LINE = "YOUR LAUNCH LINE"


def read_words(content: bytes) -> dict[str, dict[str, Message]]:
    """Return the words of a table by parameter and value. Raise ValueError if they have a place for something unknown."""
    table = msgspec.toml.decode(content, type=dict[str, dict[str, str]])
    for name, words in table.items():
        for value, text in words.items():
            places = {place for _, place, _, _ in Formatter().parse(text) if place is not None}
            if not places <= ({"value"} if value == _ANY else set()):
                raise ValueError(f"{name}: the words for {value} have a place for something unknown: {text}")
    return {name: {value: Message(text) for value, text in words.items()} for name, words in table.items()}


#: Parameters whose values read badly: name -> words of each value.
WORDS = read_words(FILE.read_bytes())

#: Values of one parameter that are named.
_MOST_VALUES = 3

#: Parameters that are named, if several distinguish the same workloads.
_MOST_NAMED = 3

#: Parameters that are made of others, or of the files behind a program.
_UNNAMED = frozenset(("program", "packages", "card", "shape", "sources_sha256"))

_NOT_SET = "none"
#: Values as Python writes them -> as a variant's name has them.
_AS_IN_A_NAME: Mapping[str, str] = {"None": _NOT_SET, "True": "true", "False": "false", "": _NOT_SET}

#: The end of what `given_program` makes.
_GIVEN = re.compile(r"-[0-9a-f]{6}$")

#: Characters that the name of a scenario does not have.
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


class SharedValues(msgspec.Struct, frozen=True):
    """The values of one parameter that workloads share."""

    values: tuple[Text, ...]  #: in words
    has_own_name: bool  #: it is spelled ``name=value``, for want of words

    @property
    def text(self) -> Text:
        """The values in words: ``ZeRO-1 or ZeRO-2``."""
        return either_of(self.values)


def conditions_text(conditions: Iterable[SharedValues]) -> Text:
    """Return conditions in words: ``ZeRO-1 or ZeRO-2, accumulation 4``; empty if there are none."""
    return joined(COMMA, (one.text for one in conditions))


def either_of(values: Sequence[Text]) -> Text:
    """Return ``a or b``."""
    return joined(OR, values)


class DistinguishingParameters:
    """Parameters that some workloads of a report have and others do not."""

    def __init__(self, parameters: Mapping[str, Mapping[str, object]]) -> None:
        self._values = {
            workload: {name: _value_in_a_name(value) for name, value in resolved.items() if name not in _UNNAMED}
            for workload, resolved in parameters.items()
        }
        self._having: dict[str, dict[str, set[str]]] = {}  #: parameter -> value -> the workloads that have it
        for workload, values in self._values.items():
            for name, value in values.items():
                self._having.setdefault(name, {}).setdefault(value, set()).add(workload)

    def of(self, affected: Sequence[str], others: Sequence[str]) -> tuple[SharedValues, ...]:
        """Return the fewest parameters that all affected workloads have and that no other has all of. Parameters that
        distinguish the same workloads are all named. Empty if ``others`` is empty, if no parameters distinguish them, or if
        too many are needed."""
        known = self._common(affected)
        left = set(others)
        apart = {name: left - self._with(name, values) for name, values in known.items()}
        order = {name: at for at, name in enumerate(dict.fromkeys((*WORDS, *known)))}
        named: list[str] = []
        while left:
            # Those that tell most apart, with the fewest values.
            ranks = {name: (-len(left & excluded), len(known[name])) for name, excluded in apart.items()}
            least = min(ranks.values(), default=None)
            best = [name for name in sorted(ranks, key=order.__getitem__) if ranks[name] == least]
            if not best or left.isdisjoint(apart[best[0]]) or len(named) >= _MOST_NAMED:
                return ()
            named += best[:_MOST_NAMED]
            left = left.difference(*(apart[name] for name in best[:_MOST_NAMED]))
        return tuple(_condition(name, sorted(known[name])) for name in order if name in named)

    def _common(self, affected: Sequence[str]) -> dict[str, set[str]]:
        """Return the parameters that all of them have, with their values, if these are few."""
        first, *rest = (self._values[workload] for workload in affected)
        found = {name: {value, *(one.get(name) for one in rest)} for name, value in first.items()}
        return {
            name: {value for value in values if value is not None}
            for name, values in found.items()
            if None not in values and len(values) <= _MOST_VALUES
        }

    def _with(self, name: str, values: set[str]) -> set[str]:
        """Return the workloads with one of these values. A parameter that a scenario does not have is not set."""
        having = self._having[name]
        found = set().union(*(having[value] for value in values))
        return found.union(self._values.keys() - set().union(*having.values())) if _NOT_SET in values else found


def shared_conditions(variants: Sequence[str]) -> Text:
    """Return the values that variants share: ``ZeRO-1 or ZeRO-2, accumulation 4``; empty if they share none."""
    named = [variant_values(variant) for variant in variants]
    shared = []
    for name in named[0] if named else ():
        values = sorted({one[name] for one in named if name in one})
        is_any = len(values) > 1 and "none" in values  # set or not set: no condition
        if all(name in one for one in named) and len(values) <= _MOST_VALUES and not is_any:
            shared.append(_condition(name, values))
    return conditions_text(shared)


def row_label(workloads: Sequence[str], models: Sequence[str]) -> Text:
    """Return a row's label: the models, and the values that their variants share."""
    variants = [split_workload(workload).variant for workload in workloads]
    return joined(COMMA, (name_list(list(dict.fromkeys(models)), 3), shared_conditions(variants)))


def given_program(line: str, distinguished_by: bytes) -> str:
    """Return the name of a program that is given on a command line: its own, and a hash of everything that distinguishes two
    launches (``train-3f9a1c``). Raise LaunchLineError."""
    own = _UNSAFE.sub("-", parse(line).name).strip("-")[:40] or "program"
    return f"{own}-{hashlib.sha256(distinguished_by).hexdigest()[:6]}"


def is_given_program(scenario: str) -> bool:
    """Return True if `given_program` made the name."""
    return _GIVEN.search(scenario) is not None


def shortened_launch_line(line: str, most: int) -> str:
    """Return a program's launch line in at most ``most`` characters: if it is longer, without variables, folders and the
    launcher's options, and then without its end."""
    if len(whole := shortened(line, max(most, len(line)))) <= most:
        return whole
    try:
        parts = parse(line)
    except LaunchLineError:
        return shortened(line, most)
    launcher = {"accelerate": ["accelerate launch"], INSTALLED: []}.get(parts.launcher, [parts.launcher])
    program = parts.program.rpartition("/")[2]
    return shortened(" ".join((*launcher, *(["..."] if parts.options else []), program, *parts.arguments)), most)


def leaves_ranks_open(line: str, ranks: int) -> bool:
    """Return True if a program runs as one rank, and would run on every GPU of its user's machine."""
    try:
        parts = parse(line)
    except LaunchLineError:
        return False
    return ranks == 1 and parts.ranks is None and parts.asks_for_devices


def _value_in_a_name(value: object) -> str:
    """Return a value as a variant's name has it."""
    text = str(value)
    return _AS_IN_A_NAME.get(text, text)


def _condition(name: str, values: Sequence[str]) -> SharedValues:
    """Return the condition that a parameter has one of these values."""
    words = WORDS.get(name, {})
    spelled = tuple(dict.fromkeys(_spelled(name, value, words) for value in values))
    return SharedValues(spelled, has_own_name=any(value not in words for value in values) and _ANY not in words)


def _spelled(name: str, value: str, words: Mapping[str, Message]) -> Text:
    if (known := words.get(value)) is not None:
        return known
    if (other := words.get(_ANY)) is not None:
        return other.with_values(value=value.replace("_", "-"))
    return f"{name}={value}"
