"""Cells run one batch after another, for commands that decide by what they measured which cells come next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.cli import options
from harness.config.settings import Settings
from harness.envs.installer import Installer
from harness.model import Cell, Result, Stack
from harness.run import pipeline, targets
from harness.run.matrix import Matrix
from harness.run.measure import Watch, measure, only_run
from harness.store import Store, newest
from harness.versions import stacks as stack_plans

Run = Callable[[Sequence[Cell]], Iterable[Result]]


@contextmanager
def running(
    settings: Settings,
    stacks: Sequence[Stack],
    baseline: Stack,
    installer: Installer,
    watch: Watch,
    *,
    fresh: bool,
) -> Iterator[Run]:
    """Builds the stacks and yields what measures cells of theirs: from the store, or now; the newest result of each.

    Raises HarnessError where the machine lacks what is needed.
    """
    store = Store(settings.results)
    store.check_writable()
    place = targets.open_place(settings, installer)
    with only_run(Path(settings.environments)):
        environments = pipeline.build_environments(stacks, settings, installer, watch, place)
        here = place.hardware()

        def run(cells: Sequence[Cell]) -> Iterable[Result]:
            results = measure(
                Matrix(cells=tuple(cells), skipped=()),
                environments,
                baseline,
                here,
                settings=settings,
                executor=place.executor,
                store=store,
                watch=watch,
                fresh=fresh,
            )
            return newest(results).values()

        yield run


def one_axis(settings: Settings, given: dict[str, Any], published: stack_plans.Published) -> pipeline.Choice:
    """Nothing is compared, so the releases asked for are all there are: the first of them stands as the baseline."""
    versions = options.versions_of(given)
    primary = targets.varied_package(settings)
    first = given["baseline"]
    if first is None and primary in versions:
        first = stack_plans.resolve(primary, versions[primary], published)[0]
    return pipeline.Choice(versions=versions, stack=given["stack"], baseline=first)
