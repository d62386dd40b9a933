"""Every metric, in one table: its name, its reader, the size from which a difference matters, and its wording.

To add a metric, see "Common changes" in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter

import msgspec

from dsregress.config.thresholds import Thresholds
from dsregress.messages import Message, Text, message
from dsregress.probe.border.wire import OCCASIONS, PHASES
from dsregress.wording.quantities import quantity
from vgpu.figures import PhaseReading

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


def _memory(
    name: str,
    title: str,
    phrase: Phrase,
    *,
    phases: tuple[str, ...],
    headline_order: int,
    heading: str = "",
    moment: str = "",
) -> Metric:
    """Return a metric of bytes in a phase, read from the field of `PhaseReading` with its name."""
    return Metric(
        name=name,
        title=title,
        unit="bytes",
        direction=Direction.LOWER_IS_BETTER,
        family="memory",
        fails="memory",
        read=attrgetter(name),
        phases=phases,
        floor=lambda thresholds: thresholds.memory_bytes,
        share=lambda thresholds: thresholds.memory_share,
        headline_order=headline_order,
        phrase=phrase,
        heading=heading,
        moment=moment,
    )


def _for_all_phases(metric: Metric) -> Metric:
    """Return a metric of which one value serves all phases."""
    return msgspec.structs.replace(metric, is_for_all_phases=True)


def _work(
    name: str,
    title: str,
    unit: str,
    family: str,
    phrase: Phrase,
    *,
    limits: tuple[Callable[[Thresholds], float], Callable[[Thresholds], float]],
    heading: str = "",
) -> Metric:
    """Return a metric of counted work in a phase, read from the field of `PhaseReading` with its name. ``limits`` are its
    floor and share."""
    return Metric(
        name=name,
        title=title,
        unit=unit,
        direction=Direction.LOWER_IS_BETTER,
        family=family,
        fails="time",
        read=attrgetter(name),
        phases=PHASES,
        floor=limits[0],
        share=limits[1],
        phrase=phrase,
        heading=heading,
    )


def _error(name: str, title: str, phase: str, wrong: Text, symptom: Text) -> Metric:
    """Return a metric of the distance from the truth, read from the field of `dsregress.probe.border.wire.Numerics` with its
    name."""
    return Metric(
        name=name,
        title=title,
        unit="tolerances",
        direction=Direction.AT_MOST_ONE,
        family="numerics",
        fails="numerics",
        finding_phase=phase,
        wrong=wrong,
        symptom=symptom,
    )


def _from_baseline(name: str, title: str, unit: str, *, family: str, phase: str) -> Metric:
    """Return a metric of a program's distance from its own run with the baseline. The comparison computes it; no record has
    it."""
    return Metric(
        name=name,
        title=title,
        unit=unit,
        direction=Direction.LOWER_IS_BETTER,
        family=family,
        fails="numerics",
        finding_phase=phase,
    )


def _reported(name: str, title: str, unit: str = "", *, exact: bool = True, phase: str = "", key: str = "") -> Metric:
    return Metric(
        name=name,
        title=title,
        unit=unit,
        direction=Direction.NEUTRAL,
        family=name,
        exact=exact,
        finding_phase=phase,
        example_key=key,
    )


DEVICE_PEAK = _memory(
    "device_peak_bytes",
    "peak of device memory",
    Phrase(
        more=message("{subject} peaks {size} higher"),
        less=message("{subject} peaks {size} lower"),
    ),
    phases=_PEAK_PHASES,
    headline_order=2,
    heading="peak",
    moment="held at the peak of {}",
)
DEVICE_RETAINED = _memory(
    "device_retained_bytes",
    "device memory held after it ends",
    Phrase(
        more=message("{subject} holds {size} more after it ends"),
        less=message("{subject} holds {size} less after it ends"),
        after=True,
    ),
    phases=_RETAINED_PHASES,
    headline_order=0,
    heading="held",
    moment="held after {}",
)
HOST_PEAK = _memory(
    "host_peak_bytes",
    "peak of host memory",
    Phrase(
        more=message("{subject} peaks {size} higher in host memory"),
        less=message("{subject} peaks {size} lower in host memory"),
    ),
    phases=_PEAK_PHASES,
    headline_order=3,
    heading="host peak",
    moment="held on the host at the peak of {}",
)
HOST_RETAINED = _memory(
    "host_retained_bytes",
    "host memory held after it ends",
    Phrase(
        more=message("{subject} holds {size} more host memory after it ends"),
        less=message("{subject} holds {size} less host memory after it ends"),
        noun="host memory",
        after=True,
    ),
    phases=_RETAINED_PHASES,
    headline_order=1,
    heading="host held",
    moment="held on the host after {}",
)
RESERVED_PEAK = _for_all_phases(
    _memory(
        "reserved_peak_bytes",
        "peak of reserved device memory",
        Phrase(
            more=message("{subject} reserves {size} more device memory"),
            less=message("{subject} reserves {size} less device memory"),
        ),
        phases=_PEAK_PHASES,
        headline_order=4,
    )
)
SMALLEST_CARD = _for_all_phases(
    _memory(
        "smallest_card_bytes",
        "smallest card that completes the step",
        Phrase(
            more=message("{subject} needs a card with {size} more memory"),
            less=message("{subject} needs a card with {size} less memory"),
        ),
        phases=_PEAK_PHASES,
        headline_order=5,
    )
)
#: Derived from what is held and its ideal, see `dsregress.compare.worst_readings.excesses`.
DEVICE_EXCESS = Metric(
    name="device_excess_bytes",
    title="device memory held beyond what ZeRO needs",
    unit="bytes",
    direction=Direction.LOWER_IS_BETTER,
    family="memory oracle",
    fails="memory",
    phases=("init", "backward", "step"),
    floor=lambda thresholds: thresholds.memory_bytes,
    share=lambda thresholds: thresholds.memory_share,
    explained_by=DEVICE_RETAINED.name,
)
HOST_CALLS = _work(
    "host_calls",
    "Python and C calls",
    "calls",
    "host work",
    Phrase(
        more=message("{subject} makes {size} more Python and C calls"),
        less=message("{subject} makes {size} fewer Python and C calls"),
        is_count=True,
    ),
    limits=(lambda thresholds: thresholds.host_calls, lambda thresholds: thresholds.host_calls_share),
    heading="calls",
)
OP_LAUNCHES = _work(
    "op_launches",
    "operations launched",
    "launches",
    "host work",
    Phrase(
        more=message("{subject} launches {size} more operations"),
        less=message("{subject} launches {size} fewer operations"),
        is_count=True,
    ),
    limits=(lambda thresholds: thresholds.op_launches, lambda thresholds: thresholds.op_launches_share),
)
FLOPS = _work(
    "flops",
    "floating-point operations",
    "operations",
    "compute",
    Phrase(
        more=message("{subject} computes {size} more"),
        less=message("{subject} computes {size} less"),
    ),
    limits=(lambda thresholds: thresholds.flops, lambda thresholds: thresholds.flops_share),
)
COLLECTIVE_COUNT = msgspec.structs.replace(
    _work(
        "collective_count",
        "collectives",
        "collectives",
        "communication",
        Phrase(
            more=message("{subject} issues {size} more collectives"),
            less=message("{subject} issues {size} fewer collectives"),
            is_count=True,
        ),
        limits=(lambda thresholds: thresholds.collective_count, lambda thresholds: thresholds.collective_count_share),
        heading="collectives",
    ),
    read=lambda reading: sum(count for count, _ in reading.collectives.values()),
)
COLLECTIVE_BYTES = msgspec.structs.replace(
    _work(
        "collective_bytes",
        "bytes in collectives",
        "bytes",
        "communication",
        Phrase(
            more=message("{subject} moves {size} more in collectives"),
            less=message("{subject} moves {size} less in collectives"),
        ),
        limits=(lambda thresholds: thresholds.collective_bytes, lambda thresholds: thresholds.collective_bytes_share),
    ),
    read=lambda reading: sum(nbytes for _, nbytes in reading.collectives.values()),
)
STEP_TIME = Metric(
    name="step_time_s",
    title="step time",
    unit="s",
    direction=Direction.LOWER_IS_BETTER,
    family="step time",
    fails="time",
    exact=False,
    floor=lambda thresholds: thresholds.time_s,
    share=lambda thresholds: thresholds.time_share,
    phrase=Phrase(
        more=message("{subject} takes {size} times as long"),
        less=message("{subject} takes {size} times as long"),
    ),
)
#: Summed over all ranks and threads. Used if wall time, which includes other programs' work, cannot tell two stacks apart.
PROCESSOR_TIME = Metric(
    name="step_processor_s",
    title="processor time of a step",
    unit="s",
    direction=Direction.LOWER_IS_BETTER,
    family=STEP_TIME.family,
    fails=STEP_TIME.fails,
    exact=False,
    floor=STEP_TIME.floor,
    share=STEP_TIME.share,
    phrase=Phrase(
        more=message("{subject} takes {size} times as much processor time"),
        less=message("{subject} takes {size} times as much processor time"),
    ),
)
INIT_TIME = _reported("init_s", "time of init", "s", exact=False)
IMPORT_TIME = _reported("import_s", "time of import", "s", exact=False)
LOSS_ERROR = _error(
    "loss_error",
    "distance of the loss from plain PyTorch",
    "forward",
    message("the loss is wrong"),
    message("loss is wrong"),
)
GRADIENT_NORM_ERROR = _error(
    "gradient_norm_error",
    "distance of the gradient norm from plain PyTorch",
    "backward",
    message("the gradient norm is wrong"),
    message("gradient norm is wrong"),
)
PARAMETER_ERROR = _error(
    "parameter_error",
    "distance of the updated parameters from plain PyTorch",
    "step",
    message("the updated parameters are wrong"),
    message("updated parameters are wrong"),
)
#: Of a program's model, as it is loaded: see `dsregress.compare.model_differences`.
WEIGHT_PRECISION = _from_baseline(
    "weight_precision", "bits of a weight, where they are not the baseline's", "bits", family="numerics", phase="init"
)
#: Of what a program feeds to its models: see `dsregress.compare.fed_differences`.
FED_DIFFERENCE = _from_baseline(
    "fed_difference", "micro-batches that are not the baseline's", "micro-batches", family="numerics", phase="forward"
)
#: Of a program's model, as it is trained: see `dsregress.compare.model_differences`.
TRAINED_WEIGHTS = _from_baseline(
    "trained_weights",
    "weights that are trained, if not as many as the baseline's",
    "weights",
    family="numerics",
    phase="init",
)
#: For programs, whose true results are unknown: see `dsregress.compare.training_differences`.
TRAINING_DIFFERENCE = _from_baseline(
    "training_difference",
    "distance of losses and gradient norms from the baseline's",
    "tolerances",
    family="numerics",
    phase="step",
)
#: Of a program's checkpoints: see `dsregress.compare.saved_differences`.
SAVED_DIFFERENCE = _from_baseline(
    "saved_difference",
    "saved tensors that are not as the baseline's",
    "tensors",
    family="checkpoint",
    phase="save",
)
CONFIGURATION = _reported(
    "configuration", "effective configuration", phase="init", key="zero_optimization.overlap_comm"
)
WARNINGS = _reported("warnings", "warnings", phase="init", key="deprecated")
OUTCOME = Metric(name="outcome", title="outcome", unit="", direction=Direction.NEUTRAL, family="outcome", fails="crash")

METRICS = (
    DEVICE_PEAK,
    DEVICE_RETAINED,
    HOST_PEAK,
    HOST_RETAINED,
    RESERVED_PEAK,
    SMALLEST_CARD,
    DEVICE_EXCESS,
    HOST_CALLS,
    OP_LAUNCHES,
    FLOPS,
    COLLECTIVE_COUNT,
    COLLECTIVE_BYTES,
    STEP_TIME,
    PROCESSOR_TIME,
    INIT_TIME,
    IMPORT_TIME,
    LOSS_ERROR,
    GRADIENT_NORM_ERROR,
    PARAMETER_ERROR,
    WEIGHT_PRECISION,
    FED_DIFFERENCE,
    TRAINED_WEIGHTS,
    TRAINING_DIFFERENCE,
    SAVED_DIFFERENCE,
    CONFIGURATION,
    WARNINGS,
    OUTCOME,
)

BY_NAME = {metric.name: metric for metric in METRICS}

#: The metrics that each rank measures in each phase.
PHASE_METRICS = tuple(metric for metric in METRICS if metric.read is not None)

#: The distances from plain PyTorch.
ERRORS = tuple(metric for metric in METRICS if metric.direction is Direction.AT_MOST_ONE)

#: The metrics whose holders ``explain`` names, in the order of its report.
EXPLAINED = tuple(metric for metric in METRICS if metric.moment)
