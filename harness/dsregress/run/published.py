"""Published results answer for the probe that measured them, without an environment.

`regress` measures again every result of another version of the probe. A question about published results is different: their
figures are as published, and the probe that measured them is part of the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from dsregress.advice.provenance import MeasureCells, source
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.model import Cell, Environment, Result, Stack, differing_parameters
from dsregress.run.decide import is_timed
from dsregress.run.session import Session, open_session
from dsregress.run.watch import Watch
from dsregress.store import Store, newest_by_cell
from dsregress.store.reuse import reusable

#: Fields that stored and wanted cells must share, besides their parameters.
_Key = tuple[str, str, int, str, str]


class Published:
    """The results of a folder or a bundle, found by their cells, whichever probe measured them and whatever the variant's
    name."""

    def __init__(self, store: Store, scenario: str, rounds: int) -> None:
        """Read the results of one scenario; timed ones count with at least ``rounds`` rounds. Raise ResultsError."""
        loaded = store.load(scenario=scenario)
        self.problems = loaded.problems
        self.is_bundle = store.is_bundle
        self._rounds = rounds
        self._results: dict[_Key, list[Result]] = {}
        for result in sorted(loaded.results, key=lambda result: result.when):
            self._results.setdefault(_published_key(result.cell), []).append(result)
        self._preferred: list[tuple[str, str]] = []  #: sources that answered already, in that order

    def find(self, cells: Sequence[Cell]) -> dict[str, Result]:
        """Return cell id -> its result, for the cells that are stored.

        As many as possible are from one source: the one that answered before, else the one with most of them, the newest of
        several.
        """
        stored = {cell.id: self._by_source(cell) for cell in cells}
        counts = Counter(name for found in stored.values() for name in found)
        last: dict[tuple[str, str], str] = {}
        for found in stored.values():
            for name, result in found.items():
                last[name] = max(last.get(name, ""), result.started_at)
        ranking = sorted(counts, key=lambda name: (counts[name], last[name]), reverse=True)
        order = [*self._preferred, *(name for name in ranking if name not in self._preferred)]
        answers = {}
        for cell in cells:
            by_source = stored[cell.id]
            if by_source:
                chosen = next(name for name in order if name in by_source)
                answers[cell.id] = msgspec.structs.replace(by_source[chosen], cell=cell)
                if chosen not in self._preferred:
                    self._preferred.append(chosen)
        return answers

    def answerable(self, stacks: Sequence[Stack], cells_of: Callable[[Stack], Iterable[Cell]]) -> tuple[Stack, ...]:
        """Return the stacks that have the most of their cells stored; all of them if none has any."""
        counts = [sum(bool(self._by_source(cell)) for cell in cells_of(stack)) for stack in stacks]
        return tuple(stack for stack, count in zip(stacks, counts, strict=True) if count == max(counts))

    def stacks(self) -> dict[str, Stack]:
        """Return the stacks of the results, by their ids."""
        cells = (result.cell for results in self._results.values() for result in results)
        return {cell.stack.id: cell.stack for cell in cells}

    def _by_source(self, cell: Cell) -> dict[tuple[str, str], Result]:
        """Return source -> the result of the cell that counts."""
        grouped: dict[tuple[str, str], list[Result]] = {}
        for result in self._results.get(_published_key(cell), ()):
            if not differing_parameters(result.cell.parameters, cell.parameters):
                grouped.setdefault(source(result), []).append(result)
        rounds = self._rounds if is_timed(cell) else 0
        found = {name: reusable(results, rounds) for name, results in grouped.items()}
        return {name: result for name, result in found.items() if result is not None}


def _published_key(cell: Cell) -> _Key:
    return cell.stack.id, cell.scenario, cell.scenario_version, cell.device, cell.framework


@contextmanager
def answering(
    settings: Settings,
    stacks: Sequence[Stack],
    watch: Watch,
    installer: Installer,
    published: Published | None,
    *,
    fresh: bool,
    existing: Sequence[Environment] = (),
) -> Iterator[MeasureCells]:
    """Yield a function that gives the newest result of each cell: as published, else from the store, else from a run made
    now.

    With ``published``, nothing is opened or built before a cell is missing. Raise as `dsregress.run.session.open_session`.
    """
    if published is None or fresh:
        with open_session(settings, stacks, watch, installer, existing) as opened:
            yield lambda cells: opened.newest(cells, fresh=fresh)
        return
    with ExitStack() as until_the_end:
        sessions: list[Session] = []

        def run(cells: Sequence[Cell]) -> Iterable[Result]:
            answers = published.find(cells)
            missing = [cell for cell in cells if cell.id not in answers]
            if missing:
                watch.note(f"{len(missing)} of {len(cells)} cells are not among the published results")
                if not sessions:
                    sessions.append(until_the_end.enter_context(open_session(settings, (), watch, installer, existing)))
                (opened,) = sessions
                opened.build(list({cell.stack.id: cell.stack for cell in missing}.values()))
                answers |= newest_by_cell(opened.measure(missing, baseline=stacks[0]))
            return [answers[cell.id] for cell in cells]

        yield run
