"""Whole workloads judged: all of a comparison that needs no other workload, and small enough to travel.

Workloads are judged apart, by as many processes as there are processors. What they have in common (Holm's correction,
the limits, the order) is left to `harness.compare.verdicts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from harness.compare import (
    configuration,
    exact,
    groups,
    oracles,
    outcomes,
    packing,
    timing,
)
from harness.compare.comparison import Group, NotCompared
from harness.compare.configuration import ConfigurationChange
from harness.compare.notes import Remarks, remarks_on
from harness.compare.pairs import Index, Pair, left_out, why_not
from harness.compare.readings import Exact
from harness.compare.summary import Measured, Taken, measured
from harness.compare.timing import Timed
from harness.config.thresholds import Thresholds
from harness.model import Finding, Outcome, Passed, Result, Stack
from harness.wording.names import outcome_text

#: Differences below the thresholds are listed up to this many, and counted beyond.
MOST_SMALL = 5_000


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on some whole workloads. Everything is in the order in which their results came."""

    cells: Sequence[Measured]  #: the newest result of each cell
    orders: list[tuple[str, ...]]  #: stacks as the cells of workloads have them: mostly all the same
    places: dict[str, int]  #: workload -> its place in ``orders``: together the stacks in the order of ``cells``
    without_verdict: dict[str, list[str]]  #: workload -> the stacks of the cells that have none
    stacks: dict[str, Stack]
    installed: dict[str, dict[str, str]]  #: stack -> what its first result had installed
    superseded: int
    groups: list[Group]
    small: Sequence[Finding]  #: below the thresholds; the first of them
    small_differences: int
    not_compared: list[NotCompared]
    timed: Timed
    changes: list[ConfigurationChange]
    remarks: Remarks
    passed: int
    ended: dict[str, dict[str, Outcome]]  #: workload -> stack -> how its cell ended, of those that did not pass

    def stacks_by_workload(self) -> dict[str, tuple[str, ...]]:
        """Workload -> the stacks of its cells: together in the order of ``cells``."""
        return {workload: self.orders[place] for workload, place in self.places.items()}


def judge(results: Iterable[Result], baseline: str, thresholds: Thresholds) -> Judged:
    """Judges the results of whole workloads. Of several results of one cell the newest counts."""
    return judge_taken(((measured(result), result.installed) for result in results), baseline, thresholds)


def judge_taken(taken: Iterable[Taken], baseline: str, thresholds: Thresholds) -> Judged:
    """As `judge`, of what is kept of the results."""
    index = Index(taken, baseline)
    pairs = index.pairs()
    findings: list[Finding] = []
    small: list[Finding] = []
    silent: list[NotCompared] = []
    comparable: list[tuple[int, Pair]] = []
    without: dict[str, list[str]] = defaultdict(list)
    differences = _Differences(thresholds)
    small_differences = 0
    ended: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for place, pair in enumerate(pairs):
        outcome = None
        if _is_sound(pair.own) and pair.base is not None and _is_sound(pair.base):  # nearly all are
            reason = why_not(pair)
        else:
            if not isinstance(pair.result.outcome, Passed):
                ended[pair.workload][pair.stack] = pair.result.outcome
            if (alone := left_out(pair)) is not None:
                silent.append(alone)
                without[pair.workload].append(pair.stack)
                continue
            if (outcome := outcomes.judge_outcome(pair)) is not None:
                findings.append(outcome)
            reason = _cannot(pair)
        findings += oracles.judge_numerics(pair)
        findings += oracles.judge_memory(pair, thresholds)
        if reason:
            without[pair.workload].append(pair.stack)
            if outcome is not None and outcome.kind == "failed":
                continue  # the finding tells why
            silent.append(NotCompared(pair.stack, pair.workload, "everything", reason))
            continue
        comparable.append((place, pair))
        if not pair.is_baseline:
            for difference in differences.of(pair):
                if difference.relevant:
                    findings.append(exact.finding(pair, difference))
                else:
                    small_differences += 1
                    if small_differences <= MOST_SMALL:
                        small.append(exact.finding(pair, difference))
    compared = [pair for _, pair in comparable]
    orders: dict[tuple[str, ...], int] = {}
    places = {workload: orders.setdefault(stacks, len(orders)) for workload, stacks in index.orders()}
    return Judged(
        cells=[pair.own for pair in pairs],
        orders=list(orders),
        places=places,
        without_verdict=without,
        stacks=index.stacks,
        installed=index.installed,
        superseded=index.superseded,
        groups=groups.together(findings),
        small=small,
        small_differences=small_differences,
        not_compared=silent,
        timed=timing.estimate(comparable, thresholds),
        changes=configuration.changes(comparable),
        remarks=remarks_on(compared),
        passed=len(pairs) - sum(map(len, ended.values())),
        ended=ended,
    )


def pack(judged: Judged) -> bytes:
    """For another process."""
    apart = msgspec.structs.replace(judged, cells=(), small=())
    return _encode((packing.pack(judged.cells), judged.small, apart))


def unpack(data: bytes | msgspec.Raw) -> Judged:
    """The reverse of `pack`; cells and small findings are decoded one by one, when they are asked for."""
    cells, small, judged = _decode(data)
    return msgspec.structs.replace(judged, cells=packing.unpack(cells), small=packing.Packed(small, _finding))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[msgspec.Raw, list[msgspec.Raw], Judged]).decode
_finding = msgspec.msgpack.Decoder(Finding).decode


class _Differences:
    """The exact comparison, made once for each two measurements, however many cells share them."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self._known: dict[tuple[bytes, bytes], list[exact.Difference]] = {}
        self._baseline: tuple[bytes, Exact] = (b"", [])

    def of(self, pair: Pair) -> list[exact.Difference]:
        """In which exact values a cell differs from the baseline's."""
        if pair.base is None or pair.own.packed == pair.base.packed:
            return []
        key = (pair.own.packed, pair.base.packed)
        known = self._known.get(key)
        if known is None:
            if self._baseline[0] is not pair.base.packed:  # the cells of one workload come together
                self._baseline = (pair.base.packed, pair.base.exact())
            known = self._known[key] = exact.differences(pair.own.exact(), self._baseline[1], self.thresholds)
        return known


def _is_sound(one: Measured) -> bool:
    return one.recorded and isinstance(one.result.outcome, Passed)


def _cannot(pair: Pair) -> str:
    """Why there is no comparison with the baseline; empty where there is one."""
    base = pair.baseline
    if base is not None and not pair.is_baseline and not isinstance(base.outcome, Passed):
        return why_not(pair) or f"the baseline {_ended(base)}"
    if not isinstance(pair.result.outcome, Passed):
        return f"it {_ended(pair.result)}"
    if pair.base is not None and not pair.base.recorded:
        return "the baseline's measurements are missing"
    return "" if pair.is_baseline else why_not(pair)


def _ended(result: Result) -> str:
    """How a result that did not pass ended, as the end of a sentence."""
    text = outcome_text(result.outcome)
    return f"ran {text}" if text.startswith("out of memory") else f"gave {text}" if text.startswith("no sign") else text
