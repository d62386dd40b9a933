"""Recommend a release to pin: of those that were measured, the newest that nothing rules out. Pure.

A release may be pinned for a workload if it ran, was judged (`Soundness.unknown`), has no finding of the kinds that fail a
run on any device mode, and, if it was simulated and a card is given, fits that card. More memory, work or time is the
price of a release and no reason against it, unless ``--fail-on`` names the kind. A release without a verdict is never
recommended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from dsregress.advice.capacity import FitVerdict
from dsregress.advice.card_rooms import CardRooms, room
from dsregress.advice.certainty import OVERHEAD_BYTES
from dsregress.advice.gpus import Card
from dsregress.advice.soundness import Soundness
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict
from dsregress.compare import FAIL_ON, Comparison, ProblemKind, ResultSummary
from dsregress.compare.exits import fails
from dsregress.compare.finding_groups import kind_of
from dsregress.compare.metrics import DEVICE_PEAK, RESERVED_PEAK, SMALLEST_CARD
from dsregress.model import Cell, Finding, Passed, Stack, differing_parameters
from dsregress.probe.scenario import BASE_VARIANT, Scenario
from dsregress.wording.names import outcome_text

_DEVICE_PEAKS = (DEVICE_PEAK.name, RESERVED_PEAK.name, SMALLEST_CARD.name)


class Rulings(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of the advisories, which count before what was measured. By default no advisory knows anything."""

    of_release: Callable[[Stack], UpgradeAnswer | None] = lambda stack: None
    knows_finding: Callable[[Finding], bool] = lambda found: False
    knows_end: Callable[[Cell, str], bool] = lambda cell, error: False


NO_RULINGS = Rulings()


class RecommendQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The workload to run, the card to fit, and what rules a release out."""

    scenario: str
    variant: str
    card: Card | None = None
    overhead_bytes: int = OVERHEAD_BYTES
    fail_on: tuple[str, ...] = FAIL_ON  #: the kinds of findings that speak against a release
    counts_costs: bool = False  #: True if those that are costs speak against it as well


class Workaround(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that runs right and fits, of a release that is ruled out."""

    variant: str
    devices: tuple[str, ...]
    room: FitVerdict | None
    findings: tuple[Finding, ...] = ()  #: what remains: more work or time


class ReleaseAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """One stack, and what rules it out."""

    stack: str  #: id
    name: str
    version: str  #: of the package
    devices: tuple[str, ...]  #: modes in which it was measured and judged
    findings: tuple[Finding, ...]  #: that matter, worst first
    room: FitVerdict | None  #: None if nothing was simulated, or no card is given
    unknown: str  #: why it has no verdict; empty if it has one
    ways: tuple[Workaround, ...]  #: what to set if it must be this one
    costs: tuple[Finding, ...] = ()  #: that do not rule it out
    advised: UpgradeAnswer | None = None  #: the verdict of the advisories; None if none is about the package

    @property
    def is_clean(self) -> bool:
        """Return True if the release has a verdict and nothing rules it out."""
        if self.advised is not None and self.advised.verdict is Verdict.NO:
            return False
        return not (self.findings or self.unknown or (self.room is not None and not self.room.fits))


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The recommendation, and what is known of the other releases, newest first."""

    question: RecommendQuery
    package: str
    baseline: str  #: its name
    pick: ReleaseAdvice | None
    newer: tuple[ReleaseAdvice, ...]  #: than the pick; all of them if there is none
    older: tuple[ReleaseAdvice, ...]
    missing: tuple[str, ...]  #: names of requested releases without a result


def advise(
    question: RecommendQuery,
    scenario: Scenario,
    comparison: Comparison,
    package: str,
    candidates: Sequence[str],
    missing: Sequence[str] = (),
    rulings: Rulings = NO_RULINGS,
) -> Advice:
    """Recommend one of ``candidates``, ids of stacks. What the advisories know counts by their ``rulings``. Raise
    ScenarioError if the question's variant is invalid."""
    same = _Same(scenario, question.variant)
    evidence = _ReleaseEvidence(question, scenario, comparison, package, rulings)
    wanted = set(candidates)
    releases = [evidence.release(stack, same) for stack in reversed(comparison.stacks) if stack.id in wanted]
    at = next((at for at, release in enumerate(releases) if release.is_clean), None)
    return Advice(
        question=question,
        package=package,
        baseline=comparison.names[comparison.baseline],
        pick=None if at is None else releases[at],
        newer=tuple(releases if at is None else releases[:at]),
        older=() if at is None else tuple(releases[at + 1 :]),
        missing=tuple(missing),
    )


class _Same:
    """The cells of the workload: by their parameters, or by a variant that resolves to the same ones."""

    def __init__(self, scenario: Scenario, variant: str) -> None:
        self._wanted = {device: scenario.resolve(variant, device) for device in scenario.devices}
        declared = (BASE_VARIANT, *scenario.variant_ids, *scenario.remedy_ids.values())
        self._names = {
            device: {variant, *(name for name in declared if scenario.resolve(name, device) == wanted)}
            for device, wanted in self._wanted.items()
        }

    def __contains__(self, cell: Cell) -> bool:
        wanted = self._wanted.get(cell.device)
        if wanted is not None and not differing_parameters(cell.parameters, wanted):
            return True
        return cell.variant in self._names.get(cell.device, ())


class _ReleaseEvidence:
    """A comparison, looked up by stack and workload."""

    def __init__(
        self, question: RecommendQuery, scenario: Scenario, comparison: Comparison, package: str, rulings: Rulings
    ) -> None:
        self._question = question
        self._rulings = rulings
        self._package = package
        self._scenario = scenario
        self._comparison = comparison
        rooms = CardRooms(comparison)
        self._soundness = Soundness(comparison, rooms, lambda found: self._counts(found) and self._is_against(found))
        self._costs = Soundness(comparison, rooms, lambda found: self._counts(found) and not self._is_against(found))
        self._cells: dict[str, dict[str, ResultSummary]] = defaultdict(dict)  #: stack -> workload -> its cell
        for cell in comparison.cells:
            at = cell.result.cell
            if at.scenario == question.scenario and at.scenario_version == scenario.version:
                self._cells[at.stack.id][at.workload] = cell

    def release(self, stack: Stack, same: _Same) -> ReleaseAdvice:
        """Return the advice on one stack for the workload."""
        cells = {w: cell for w, cell in self._cells[stack.id].items() if cell.result.cell in same}
        findings = [found for w in cells for found in self._soundness.findings(stack.id, w)]
        judged = [w for w in cells if not self._unknown(cells[w])]
        rooms = [room for w in judged if (room := self._room(cells[w])) is not None]
        unknown = (
            "" if judged else next((self._unknown(cell) for cell in cells.values()), "not measured on this workload")
        )
        tightest = min(rooms, key=lambda one: one.headroom_bytes, default=None)
        version = stack.versions.get(self._package, "")
        alone = sum(one.versions.get(self._package) == version for one in self._comparison.stacks) == 1
        release = ReleaseAdvice(
            stack=stack.id,
            name=version if alone else self._comparison.names[stack.id],
            version=version,
            devices=_devices(cells[w] for w in judged),
            findings=tuple(findings),
            room=tightest,
            unknown="" if findings else unknown,
            ways=(),
            costs=tuple(found for w in cells for found in self._costs.findings(stack.id, w)),
            advised=self._rulings.of_release(stack),
        )
        return release if release.is_clean else msgspec.structs.replace(release, ways=self._ways(stack.id, set(cells)))

    def _unknown(self, cell: ResultSummary) -> str:
        """Return why a cell has no verdict; empty if it has one, or ended in a way that an advisory knows."""
        own = cell.result
        is_known = not isinstance(own.outcome, Passed) and self._rulings.knows_end(own.cell, outcome_text(own.outcome))
        return "" if is_known else self._soundness.unknown(cell)

    def _ways(self, stack: str, without: set[str]) -> tuple[Workaround, ...]:
        """Return the variants that, on all device modes that they were measured on, cost at most time."""
        together: dict[str, list[str]] = defaultdict(list)
        for workload, cell in self._cells[stack].items():
            if workload not in without:
                together[cell.result.cell.variant].append(workload)
        ways = []
        for variant, workloads in together.items():
            cells = [self._cells[stack][workload] for workload in workloads]
            rooms = [room for cell in cells if (room := self._room(cell)) is not None]
            remaining = [found for w in workloads for found in self._soundness.findings(stack, w)]
            if any(fails(found, ("memory", "numerics", "crash")) for found in remaining):
                continue
            if any(self._soundness.unknown(cell) for cell in cells):
                continue
            if not all(room.fits for room in rooms):
                continue
            tightest = min(rooms, key=lambda one: one.headroom_bytes, default=None)
            costs = [found for w in workloads for found in self._costs.findings(stack, w)]
            ways.append(
                Workaround(variant=variant, devices=_devices(cells), room=tightest, findings=(*remaining, *costs))
            )
        return tuple(sorted(ways, key=lambda way: (len(way.findings), -way.room.headroom_bytes if way.room else 0)))

    def _counts(self, found: Finding) -> bool:
        """Return True for a finding of a kind that matters, of which no advisory knows."""
        return fails(found, self._question.fail_on) and not self._rulings.knows_finding(found)

    def _is_against(self, found: Finding) -> bool:
        """Return True for a finding that rules a release out. A peak that the card has not the room for is no finding, but
        does: see `ReleaseAdvice.is_clean`."""
        return not kind_of(found).is_cost or (self._question.counts_costs and not self._has_room_for(found))

    def _has_room_for(self, found: Finding) -> bool:
        """Return True if a finding is a higher peak of device memory for which the card has the room. The simulation of a
        card says nothing about a host."""
        if found.metric not in _DEVICE_PEAKS or kind_of(found) is not ProblemKind.MORE:
            return False
        if found.scenario != self._question.scenario or found.device != "sim":
            return False
        cell = self._comparison.cells.of(found.stack, found.workload)
        own = self._room(cell) if cell is not None else None
        return own is not None and own.fits

    def _room(self, cell: ResultSummary) -> FitVerdict | None:
        return room(cell, self._question.card, self._question.overhead_bytes)


def _devices(cells: Iterable[ResultSummary]) -> tuple[str, ...]:
    return tuple(sorted({cell.result.cell.device for cell in cells}))
