"""Every metric, in one table (``metrics.toml``): the size from which a difference matters, its wording; and its reader.

To add a metric, see "Common changes" in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from pathlib import Path
from typing import Literal

import msgspec

from dsregress.config.settings import FailOn
from dsregress.config.thresholds import Thresholds
from dsregress.messages import Message, Text, message
from dsregress.probe.border.wire import OCCASIONS, PHASES
from dsregress.wording.quantities import quantity
from vgpu.figures import FLASH, PhaseReading

#: Memory that stays explains a later peak, and the earliest phase that leaves it behind is the cause.
_RETAINED_PHASES = ("load", "init", "backward", "forward", "step", *(p for p in OCCASIONS if p != "load"))
#: Activations and gathered parameters peak in backward: a peak elsewhere mostly follows from that.
_PEAK_PHASES = ("backward", "forward", "step", "init", *OCCASIONS)


class Direction(Enum):
    """The meaning of a larger value."""

    LOWER_IS_BETTER = "lower is better"
    AT_MOST_ONE = "above 1 is wrong"
    NEUTRAL = "a difference is reported, not judged"


class Phrase(msgspec.Struct, frozen=True, kw_only=True):
    """The wording of a difference: "backward holds 2 MiB more after it ends"."""

    more: Message  #: has ``{subject}`` and ``{size}``
    less: Message
    noun: str = "memory"  #: what is held
    is_count: bool = False  #: the messages say what is counted, so the size needs no unit
    after: bool = False  #: measured when the phase has ended, not in it

    def of_subject(self, subject: Text, size: str, *, more: bool) -> Message:
        """Return the sentence about a subject: ``backward holds 2 MiB more after it ends``."""
        return (self.more if more else self.less).with_values(subject=subject, size=size)


_DIFFERS = Phrase(
    more=message("{subject} differs by {size} more"),
    less=message("{subject} differs by {size} less"),
)


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One named quantity."""

    name: str
    title: str  #: for people; a phase is put before it where there is one
    unit: str  #: bytes, calls, operations, launches, collectives, s, tolerances; empty if the value is not a number
    direction: Direction
    family: str  #: findings of one family on one cell move together, under one headline
    fails: str = ""  #: the word of ``--fail-on`` that a regression of it answers to; empty: never fails
    exact: bool = True  #: the same cell gives the same value every time

    #: Reads it from what one rank measured in one phase; None where it does not come from there.
    read: Callable[[PhaseReading], float | None] | None = None
    #: Where it is measured, the phase that explains the others first; empty: once per run.
    phases: tuple[str, ...] = ()
    finding_phase: str = ""  #: the phase of its findings, where it is measured once per run
    is_for_all_phases: bool = False  #: one value serves all phases, so only that of the phase that needs most is judged

    #: The absolute size, and the fraction of the baseline's value, from which on a difference matters.
    floor: Callable[[Thresholds], float] | None = None
    share: Callable[[Thresholds], float] | None = None

    #: Among findings of a family that are about as large, the lowest is the headline: it explains the others.
    headline_order: int = 0
    phrase: Phrase = _DIFFERS  #: how a difference from the baseline reads
    wrong: Text = ""  #: an oracle's words for a value above 1
    symptom: Text = ""  #: the same after the name of what has it

    heading: str = ""  #: over a column of a table
    moment: str = ""  #: the moment, in words, for which ``explain`` names the holders; empty: none
    explained_by: str = ""  #: the metric whose moment explains it, if it has none
    example_key: str = ""  #: for a name that covers many values by key: such a key, for hints

    @property
    def per_phase(self) -> bool:
        """True if the metric has a value for each of several phases."""
        return bool(self.phases)

    def flat_name(self, phase: str) -> str:
        """Return the name in ``--json`` and in questions: ``backward.device_peak_bytes``, ``step_time_s``."""
        return f"{phase}.{self.name}" if self.per_phase else self.name

    def size(self, value: float) -> str:
        """Return a difference as its `Phrase` needs it: ``2 MiB``, ``5,000``."""
        return quantity(value, "" if self.phrase.is_count else self.unit)

    def limit(self, baseline: float, thresholds: Thresholds) -> float:
        """Return the smallest difference from ``baseline`` that matters; 0 if there is no limit. A baseline of 0 has no
        share."""
        floor = self.floor(thresholds) if self.floor is not None else 0.0
        share = self.share(thresholds) if self.share is not None else 0.0
        return max(floor, share * abs(baseline))

    def relevant(self, value: float, baseline: float, thresholds: Thresholds) -> bool:
        """Return True if the difference matters."""
        difference = abs(value - baseline)
        return difference > 0 and difference >= self.limit(baseline, thresholds)


class _MetricEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric in ``metrics.toml``: the fields of `Metric` and `Phrase`, with names for what is no data."""

    title: str
    family: str
    unit: str = ""
    direction: Direction = Direction.LOWER_IS_BETTER
    fails: FailOn | Literal[""] = ""
    exact: bool = True
    phases: Literal["", "peak", "retained", "excess", "all"] = ""  #: a key of `_ORDERS`
    is_read: bool = True  #: from what a rank measured in a phase, where there are phases; else it is derived
    finding_phase: str = ""
    is_for_all_phases: bool = False
    floor: str = ""  #: a field of `Thresholds`
    share: str = ""
    headline_order: int = 0
    more: str = _DIFFERS.more.id
    less: str = _DIFFERS.less.id
    noun: str = "memory"
    is_count: bool = False
    after: bool = False
    wrong: str = ""
    symptom: str = ""
    heading: str = ""
    moment: str = ""
    explained_by: str = ""
    example_key: str = ""

    def __post_init__(self) -> None:
        for name in filter(None, (self.floor, self.share)):
            if name not in Thresholds.__struct_fields__:
                raise ValueError(f"no such threshold: {name}")

    def metric(self, name: str) -> Metric:
        """Return the metric with this name."""
        phrase = Phrase(
            more=Message(self.more), less=Message(self.less), noun=self.noun, is_count=self.is_count, after=self.after
        )
        return Metric(
            name=name,
            title=self.title,
            unit=self.unit,
            direction=self.direction,
            family=self.family,
            fails=self.fails,
            exact=self.exact,
            read=_COUNTED.get(name, attrgetter(name)) if self.phases and self.is_read else None,
            phases=_ORDERS[self.phases],
            finding_phase=self.finding_phase,
            is_for_all_phases=self.is_for_all_phases,
            floor=attrgetter(self.floor) if self.floor else None,
            share=attrgetter(self.share) if self.share else None,
            headline_order=self.headline_order,
            phrase=phrase,
            wrong=Message(self.wrong) if self.wrong else "",
            symptom=Message(self.symptom) if self.symptom else "",
            heading=self.heading,
            moment=self.moment,
            explained_by=self.explained_by,
            example_key=self.example_key,
        )


#: In what order phases explain one another.
_ORDERS: dict[str, tuple[str, ...]] = {"": (), "peak": _PEAK_PHASES, "retained": _RETAINED_PHASES, "all": PHASES}
_ORDERS["excess"] = ("init", "backward", "step")

#: Readers of metrics that are no field of `PhaseReading`.
_COUNTED: dict[str, Callable[[PhaseReading], float | None]] = {
    "attention_off_flash": lambda reading: (
        sum(calls for kernel, calls in reading.attention.items() if kernel != FLASH) if reading.attention else None
    ),
    "collective_count": lambda reading: sum(count for count, _ in reading.collectives.values()),
    "collective_bytes": lambda reading: sum(nbytes for _, nbytes in reading.collectives.values()),
}

#: The table.
FILE = Path(__file__).with_suffix(".toml")


def read_metrics(content: bytes) -> dict[str, Metric]:
    """Return the metrics of a table by name, in its order. Raise ValueError if an entry is none."""
    return {
        name: entry.metric(name) for name, entry in msgspec.toml.decode(content, type=dict[str, _MetricEntry]).items()
    }


BY_NAME = read_metrics(FILE.read_bytes())

METRICS = tuple(BY_NAME.values())

DEVICE_PEAK = BY_NAME["device_peak_bytes"]
DEVICE_RETAINED = BY_NAME["device_retained_bytes"]
HOST_PEAK = BY_NAME["host_peak_bytes"]
HOST_RETAINED = BY_NAME["host_retained_bytes"]
RESERVED_PEAK = BY_NAME["reserved_peak_bytes"]
SMALLEST_CARD = BY_NAME["smallest_card_bytes"]
DEVICE_EXCESS = BY_NAME["device_excess_bytes"]
HOST_CALLS = BY_NAME["host_calls"]
OP_LAUNCHES = BY_NAME["op_launches"]
ATTENTION_OFF_FLASH = BY_NAME["attention_off_flash"]
FLOPS = BY_NAME["flops"]
COLLECTIVE_COUNT = BY_NAME["collective_count"]
COLLECTIVE_BYTES = BY_NAME["collective_bytes"]
STEP_TIME = BY_NAME["step_time_s"]
PROCESSOR_TIME = BY_NAME["step_processor_s"]
INIT_TIME = BY_NAME["init_s"]
IMPORT_TIME = BY_NAME["import_s"]
LOSS_ERROR = BY_NAME["loss_error"]
GRADIENT_NORM_ERROR = BY_NAME["gradient_norm_error"]
PARAMETER_ERROR = BY_NAME["parameter_error"]
START_WEIGHTS = BY_NAME["start_weights"]
WEIGHT_PRECISION = BY_NAME["weight_precision"]
FED_DIFFERENCE = BY_NAME["fed_difference"]
RESUMED_DATA = BY_NAME["resumed_data"]
TRAINED_WEIGHTS = BY_NAME["trained_weights"]
TRAINING_DIFFERENCE = BY_NAME["training_difference"]
STEPS_TAKEN = BY_NAME["steps_taken"]
LOGGED_DIFFERENCE = BY_NAME["logged_difference"]
TENSOR_GROWTH = BY_NAME["tensor_growth"]
RESIDENT_GROWTH = BY_NAME["resident_growth"]
OBJECT_GROWTH = BY_NAME["object_growth"]
SAVED_DIFFERENCE = BY_NAME["saved_difference"]
SAVED_NUMBERS = BY_NAME["saved_numbers"]
EMPTY_FILE = BY_NAME["empty_file"]
UNSAVED = BY_NAME["unsaved_weights"]
LOADED_OTHERWISE = BY_NAME["loaded_otherwise"]
CONFIGURATION = BY_NAME["configuration"]
WARNINGS = BY_NAME["warnings"]
OUTCOME = BY_NAME["outcome"]

#: Distances of what comes out of a program from its own run with the baseline.
COMES_OUT = (TRAINING_DIFFERENCE, STEPS_TAKEN, LOGGED_DIFFERENCE, SAVED_DIFFERENCE)

#: Growth of what lives from step to step.
PILES_UP = (TENSOR_GROWTH, RESIDENT_GROWTH, OBJECT_GROWTH)

#: The metrics that each rank measures in each phase.
PHASE_METRICS = tuple(metric for metric in METRICS if metric.read is not None)

#: The distances from plain PyTorch.
ERRORS = tuple(metric for metric in METRICS if metric.direction is Direction.AT_MOST_ONE)

#: The metrics whose holders ``explain`` names, in the order of its report.
EXPLAINED = tuple(metric for metric in METRICS if metric.moment)
