"""What a comparison is made of: frozen values, ready to be reported."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from harness.compare.measured import Measured
from harness.model import Finding, Result, Stack
from harness.probe.wire import Detail

#: Reads what explains a result's figures; None where it is not there any more. May be slow: called only for findings.
DetailOf = Callable[[Result], Detail | None]


class Group(msgspec.Struct, frozen=True):
    """Findings that move together on one cell: the most telling one, and the rest."""

    headline: Finding
    related: tuple[Finding, ...] = ()


class NotCompared(msgspec.Struct, frozen=True):
    """What has no verdict, and why."""

    stack: str
    workload: str
    what: str  #: "everything", or a metric's name
    reason: str


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """The step time of one cell against the baseline's, or of the baseline against itself."""

    stack: str
    workload: str
    ratio: float
    low: float  #: of the 95 % interval of the ratio
    high: float
    pairs: int
    value_s: float
    baseline_s: float
    p_value: float  #: corrected for the number of comparisons in the report
    verdict: str  #: slower, faster, same, unknown; control


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One headline finding over the releases: who has it and who does not, of what was measured."""

    metric: str
    phase: str
    kind: str
    workloads: tuple[str, ...]
    having: tuple[str, ...]  #: stack ids in version order
    free: tuple[str, ...]
    unknown: tuple[str, ...]  #: no verdict for them
    worst: Finding
    sentence: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All that was judged. Findings are sorted, worst first."""

    baseline: str
    stacks: tuple[Stack, ...]  #: in version order
    names: dict[str, str]  #: stack id -> short name
    cells: tuple[Measured, ...]  #: what was judged: the newest result of each cell
    groups: tuple[Group, ...]
    findings: tuple[Finding, ...]
    small_differences: int  #: exact differences below the thresholds that were counted, not listed
    not_compared: tuple[NotCompared, ...]
    step_times: tuple[StepTime, ...]
    control: tuple[StepTime, ...]
    spans: tuple[Span, ...]
    notes: tuple[str, ...]
    passed: int
    compared: int  #: cells, without the baseline's, that were compared with the baseline's
    ran: int
