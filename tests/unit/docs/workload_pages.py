"""The pages about reported workloads, written from published results: a template holds the words, results hold the figures.

``results/workloads/NAME.md.jinja`` becomes ``NAME.md``. In a template ``results(FILE, ...)`` reads bundles, and
``cells(WORKLOAD, package=VERSION, ...)`` is the one cell with these versions; see `PublishedCell` for what it tells.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path

from dsregress.advice import gpus
from dsregress.advice.capacity import FitVerdict, compared_verdict, needed_bytes
from dsregress.advice.gpus.traffic import Traffic, traffic
from dsregress.compare.result_summary import summarize
from dsregress.model import Passed, Result, split_workload
from dsregress.probe.border.wire import Explanation, Numerics, Refusal
from dsregress.store import Store, explained_in, newest_by_cell
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import quantity, short_quantity
from tests.paths import ROOT
from tests.unit.docs.commands import printed
from tests.unit.docs.templates import SUFFIX, rendered
from vgpu.figures import MemoryReading, PhaseReading

FOLDER = ROOT / "results" / "workloads"

#: How DeepSpeed's own readings of the card begin that are a part of `deepspeed.initialize`.
_OF_INITIALIZATION = ("Stage 3 ", "DeepSpeedZeRoOffload ", "Before ", "After ")


class PublishedCell:
    """What a template says of one result. Figures are those of the worst rank; sizes are texts with their unit."""

    def __init__(self, result: Result, explanation: Explanation | None) -> None:
        self.result = result
        self.explanation = explanation
        self.parameters = result.cell.parameters
        self.installed = result.installed

    @property
    def phases(self) -> dict[str, PhaseReading]:
        """By name: of each figure the worst rank's."""
        assert self.result.record is not None, f"{self.result.cell.id} has no figures"
        ranks = [rank.phases for rank in self.result.record.ranks]
        worst = max(ranks, key=lambda phases: max(needed_bytes(phases)[0].values()))
        return dict(worst)

    @property
    def outcome(self) -> str:
        return outcome_text(self.result.outcome)

    @property
    def passed(self) -> bool:
        return isinstance(self.result.outcome, Passed)

    @property
    def needed(self) -> dict[str, int]:
        """Bytes that a card must have, by phase."""
        return needed_bytes(self.phases)[0]

    @property
    def peak(self) -> str:
        """What a card must have for all phases."""
        return size(max(self.needed.values()))

    @property
    def peak_in(self) -> str:
        """The phase that needs most."""
        return max(self.needed, key=self.needed.__getitem__)

    def allocated(self, phase: str) -> str:
        """At the phase's peak."""
        return size(self.phases[phase].device_peak_bytes)

    def held(self, phase: str) -> str:
        """After the phase."""
        return size(self.phases[phase].device_retained_bytes)

    @property
    def reserved(self) -> str:
        """At most, on a card without limit."""
        return size(max(reading.reserved_peak_bytes or 0 for reading in self.phases.values()))

    @property
    def host(self) -> str:
        """Of one rank, at its peak."""
        return size(max(reading.host_peak_bytes for reading in self.phases.values()))

    def node_host(self, phase: str) -> str:
        """Of all ranks of a node, each at its peak in the phase."""
        ranks = min(int(self.parameters["world_size"]), gpus.step_time.GPUS_PER_NODE)
        return size(ranks * self.phases[phase].host_peak_bytes)

    @property
    def sent(self) -> str:
        """In the collectives of one step."""
        step = [self.phases[phase] for phase in ("forward", "backward", "step")]
        return size(sum(total for reading in step for _, total in reading.collectives.values()))

    @property
    def traffic(self) -> Traffic:
        """What one rank sends in one step, inside its node and between nodes of eight."""
        found = traffic([self.phases[phase] for phase in ("forward", "backward", "step")], gpus.step_time.GPUS_PER_NODE)
        assert found is not None, f"{self.result.cell.id} is of a probe that did not note groups"
        return found

    def collectives(self, phase: str) -> int:
        """How many the phase issues."""
        return sum(count for count, _ in self.phases[phase].collectives.values())

    @property
    def numerics(self) -> Numerics:
        """What it computed in its first steps."""
        assert self.result.record is not None
        found = self.result.record.ranks[0].numerics
        assert found is not None, f"{self.result.cell.id} has no numerics"
        return found

    def reading(self, at: str) -> MemoryReading:
        """What the program last read of its card at a point that it names."""
        assert self.result.record is not None
        found = [reading for reading in self.result.record.ranks[0].readings if reading.at == at]
        assert found, f"{self.result.cell.id} reads nothing at {at!r}"
        return found[-1]

    def turn(self, at: str, *, first: bool = False) -> MemoryReading:
        """What the program read at the end of a turn that it names, the last or the first time, with the peak of the whole
        turn: DeepSpeed resets peaks where it prints what it holds while it initializes."""
        assert self.result.record is not None
        readings = self.result.record.ranks[0].readings
        found = [place for place, reading in enumerate(readings) if reading.at == at]
        assert found, f"{self.result.cell.id} reads nothing at {at!r}"
        end = begin = found[0 if first else -1]
        while begin and readings[begin - 1].at.startswith(_OF_INITIALIZATION):
            begin -= 1
        peak = max(reading.allocated_peak_bytes for reading in readings[begin : end + 1])
        return dataclasses.replace(readings[end], allocated_peak_bytes=peak)

    def fit(self, card: str = "") -> FitVerdict:
        """On the workload's card, or another."""
        return compared_verdict(summarize(self.result), gpus.card(card or str(self.parameters["gpu"])))

    def fits(self, card: str = "") -> str:
        """``fits, 6.55 GiB to spare``, or ``out of memory in forward, lacks 2.1 GiB``."""
        found = self.fit(card)
        spare = size(abs(found.headroom_bytes))
        return f"fits, {spare} to spare" if found.fits else f"out of memory in {found.fails_in}, lacks {spare}"

    @property
    def refusal(self) -> Refusal:
        """The first request that the workload's card does not serve."""
        assert self.explanation is not None, f"{self.result.cell.id} is not explained"
        assert self.explanation.refusal is not None, f"{self.result.cell.id} is served by its card"
        return self.explanation.refusal


class PublishedCells:
    """Those of some bundles."""

    def __init__(self, *files: str) -> None:
        self._results: list[Result] = []
        folders = [str(ROOT / file) for file in files]
        for folder in folders:
            loaded = Store(folder).load()
            assert not loaded.problems, loaded.problems
            self._results += newest_by_cell(loaded.results).values()
        self._explanation = explained_in(folders)

    def __call__(self, workload: str, **versions: str) -> PublishedCell:
        """The one cell of ``scenario/variant/device`` whose environment has these versions."""
        found = self.all(workload, **versions)
        assert len(found) == 1, f"{len(found)} results of {workload} with {versions}"
        return found[0]

    def all(self, workload: str, **versions: str) -> list[PublishedCell]:
        wanted = {name.replace("_", "-"): version for name, version in versions.items()}

        def has(result: Result) -> bool:
            installed = {name.lower().replace("_", "-"): version for name, version in result.installed.items()}
            return all(installed.get(name, "").partition("+")[0] == version for name, version in wanted.items())

        return [
            PublishedCell(result, self._explanation(result))
            for result in self._results
            if _parts(result.cell.workload) == _parts(workload) and has(result)
        ]


def _parts(workload: str) -> tuple[str, str, frozenset[str]]:
    """What it is, in whatever order its variant is spelled."""
    scenario, variant, device = split_workload(workload)
    return scenario, device, frozenset(variant.split(","))


def size(nbytes: float) -> str:
    """``4.64 GiB``."""
    return short_quantity(nbytes, "bytes")


def templates() -> Iterator[Path]:
    yield from sorted(FOLDER.glob(f"*.md{SUFFIX}"))


def written(template: Path) -> str:
    """The page that a template makes."""
    functions = {"results": functools.cache(PublishedCells), "printed": lambda command: printed(command, 300)}
    return rendered(template, functions, filters={"size": size, "quantity": quantity})
