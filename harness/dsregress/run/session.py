"""Opening a run: the one place that opens the target and the store, holds the run lock, and builds environments.

with session(settings, stacks, watch, installer) as s:
    results = s.measure(cells)
    explained = s.explain(cells)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from dsregress.config.settings import Settings
from dsregress.envs.bytecode_checks import record_bytecode
from dsregress.envs.installer import Installer
from dsregress.envs.places import BYTECODE
from dsregress.errors import UsageError
from dsregress.launch.lasting import Lasting
from dsregress.launch.workers import IDLE_SERVER_BYTES, worker_key
from dsregress.model import Cell, Environment, Result, Stack
from dsregress.run.cell_matrix import CellMatrix
from dsregress.run.commit_builds import CommitSource, CommitSources, build_commits, source_of
from dsregress.run.explaining import ExplainContext, Explained, explain_cells
from dsregress.run.lock import run_lock
from dsregress.run.measure import MeasureContext, measure_cells
from dsregress.run.stack_environments import build_environments
from dsregress.run.targets import open_target
from dsregress.run.watch import Watch
from dsregress.store import Explanations, Store, newest_by_cell
from dsregress.system.kept import sees_processes
from dsregress.wording.quantities import left_text


@contextlib.contextmanager
def open_session(
    settings: Settings,
    stacks: Sequence[Stack],
    watch: Watch,
    installer: Installer,
    existing: Sequence[Environment] = (),
) -> Iterator[Session]:
    """Hold the run lock, build the stacks, and yield the session that measures and explains their cells. The first is the
    baseline. ``existing`` are environments that need not be built.

    Raise UsageError for an executor that does not exist, EnvironmentUnavailable if the machine lacks something or another
    run is active, ResultsError if results cannot be written.
    """
    opened = Session(settings, stacks, watch, installer)
    opened.store.check_writable()
    with run_lock(Path(settings.environments)) as left:
        if not sees_processes():
            watch.note(
                "/proc cannot be read: daemons that a release starts are neither ended nor named; mount it (proc(5))"
            )
        if left:
            watch.note(f"an earlier run {left_text(left)}")
        opened.add(existing)
        opened.build(stacks)
        try:
            yield opened
        finally:
            opened.end()
            with contextlib.suppress(OSError):  # what has no digest is read before it is used again
                record_bytecode(Path(settings.environments) / BYTECODE)


class Session:
    """An open run. Stacks may be added while it is open."""

    def __init__(self, settings: Settings, stacks: Sequence[Stack], watch: Watch, installer: Installer) -> None:
        """Start nothing. Raise UsageError, EnvironmentUnavailable."""
        self.settings = settings
        self.watch = watch
        self.installer = installer
        self.store = Store(settings.results)
        self.target = open_target(settings, installer, watch.note)
        self._baseline = stacks[0] if stacks else None
        self._environments: dict[str, Environment] = {}
        self._sources: dict[str, CommitSource] = {}
        self._lasting: Lasting | None = None

    def build(self, stacks: Sequence[Stack]) -> tuple[Environment, ...]:
        """Return an environment for each stack, in order; one that cannot be built has its ``failure``. Those of this
        session are not built again.

        Raise UsageError for one that cannot be built, EnvironmentUnavailable if the machine is at fault rather than a stack.
        """
        missing = list({stack.id: stack for stack in stacks if stack.id not in self._environments}.values())
        if existed := [stack for stack in missing if stack.existed]:
            what = f"{existed[0].id} is an existing interpreter and cannot be built"
            raise UsageError(what, where="stack", hint="name it: --python PATH")
        commits = [stack for stack in missing if source_of(stack, self._sources) is not None]
        if released := [stack for stack in missing if stack not in commits]:
            self.add(build_environments(released, self.settings, self.installer, self.watch, self.target.build))
        if commits:
            self.add(build_commits(commits, self._sources, self.settings, self.installer, self.watch))
        return tuple(self._environments[stack.id] for stack in stacks)

    def add(self, environments: Iterable[Environment]) -> None:
        """Add environments that were built elsewhere."""
        self._environments.update((environment.stack.id, environment) for environment in environments)

    def add_sources(self, sources: CommitSources) -> None:
        """Add the sources of commits, from which the stacks that hold them are built."""
        self._sources.update(sources)

    def measure(
        self, cells: Sequence[Cell], *, baseline: Stack | None = None, rounds: int | None = None, fresh: bool = False
    ) -> list[Result]:
        """Return results for every cell, from the store or from a run made now, in the order of the cells: one of each, and
        if its time was measured in several sessions, those of the baseline in each.

        ``rounds`` and ``baseline`` replace those of the settings and of the session. Raise as `build`, ResultsError,
        KeyboardInterrupt; everything measured until then is stored.
        """
        self.build([cell.environment_stack for cell in cells])
        against = baseline or self._baseline
        assert against is not None, "a session without stacks needs a baseline"
        settings = self.settings
        if rounds is not None:
            settings = msgspec.structs.replace(settings, rounds=rounds)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self.end)  # so that the cells that still run need not be waited for
            results = measure_cells(
                CellMatrix(cells=tuple(cells), skipped=()),
                list(self._environments.values()),
                against,
                MeasureContext(
                    settings=settings,
                    executor=self.target.executor,
                    hardware=self.target.hardware(),
                    store=self.store,
                    watch=self.watch,
                    cluster=self._lasting,
                ),
                fresh=fresh,
            )
            on_failure.pop_all()
        return results

    def keep_open(self) -> None:
        """Keep workers open from one call of `measure` to the next: for many calls with a few cells each, of the same
        stacks."""
        if self._lasting is None:
            self._lasting = Lasting(self.target.executor.cluster(self.target.hardware()))

    def keep_open_for(self, cells: Sequence[Cell]) -> None:
        """Keep workers open, as `keep_open` does, from the measurement of these cells to the explanations of some of them,
        if the memory of one machine is enough for all their workers. Raise as `build`."""
        self.build([cell.environment_stack for cell in cells])
        hardware = self.target.hardware()
        workers = len({worker_key(cell) for cell in cells})
        cluster = self.target.executor.cluster(hardware)
        if not cluster.shares_environments and workers * IDLE_SERVER_BYTES <= hardware.memory_bytes // 2:
            self._lasting = Lasting(cluster)

    def end(self) -> None:
        """Close the workers that stayed open."""
        if self._lasting is not None:
            self._lasting.end()
            self._lasting = None

    def newest(self, cells: Sequence[Cell], *, fresh: bool = False) -> Iterable[Result]:
        """Measure as `measure` does, and return the newest result of each cell."""
        return newest_by_cell(self.measure(cells, fresh=fresh)).values()

    def explain(self, cells: Sequence[Cell], *, fresh: bool = False, quiet: bool = False) -> dict[str, Explained]:
        """Return cell id -> the holders of its memory, from the store or from a run made now.

        Raise as `build`, ResultsError if an explanation cannot be stored, KeyboardInterrupt.
        """
        self.build([cell.environment_stack for cell in cells])
        report = (lambda line: None) if quiet else self.watch.note
        return explain_cells(cells, self.explain_context(), fresh=fresh, report=report)

    def explain_context(self) -> ExplainContext:
        """Return everything that explaining cells of this session needs."""
        executor = self.target.executor
        return ExplainContext(
            cluster=self._lasting or executor.cluster(self.target.hardware()),
            environments=self._environments,
            hardware=self.target.hardware(),
            explanations=Explanations(self.settings.results),
        )
