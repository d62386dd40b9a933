"""The one place that joins the stations.

    version specs -> stacks -> locks -> environments -> cells -> runs -> results on disk -> comparison

`plan_run` resolves stacks and cells without starting anything; `regress` also measures and compares them.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement

from dsregress import compare
from dsregress.config.settings import Settings
from dsregress.config.variables import installer_environment
from dsregress.envs.installer import Installer
from dsregress.errors import HarnessError, NoReleaseFits, UsageError
from dsregress.model import Cell, Hardware, NotInstalled, Result, Stack
from dsregress.probe import launch_line
from dsregress.probe.border.wire import Detail
from dsregress.probe.scenario import Scenario
from dsregress.run import (
    available_workloads,
    cell_matrix,
    checkout_stacks,
    cpu_torch,
    day_partners,
    explaining,
    interpreters,
    needed_packages,
    stack_locks,
)
from dsregress.run.checkout_stacks import Checkout
from dsregress.run.commit_builds import CommitSources, source_of
from dsregress.run.dated_scenarios import scenarios_of_the_day
from dsregress.run.refusals import are_many_simulations, cells_between, cells_to_compare
from dsregress.run.session import open_session
from dsregress.run.targets import planned_hardware
from dsregress.run.watch import Watch
from dsregress.store import Explanations, Store, StoredWorkloads, explained_in
from dsregress.store.contents import silent
from dsregress.versions import locking, stack_plans
from dsregress.wording.quantities import listing
from dsregress.wording.workload_words import is_given_program


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of one call, beyond the settings."""

    versions: dict[str, str] = {}  #: package -> spec; empty: the configured stacks
    stack: str | None = None  #: a named stack
    baseline: str | None = None
    pythons: tuple[str, ...] = ()  #: paths of existing interpreters; the first is the baseline
    left_out: tuple[str, ...] = ()  #: packages of the configured stacks that these are without
    selection: cell_matrix.Selection = cell_matrix.Selection()
    checkout: Checkout | None = None  #: a framework's working tree, against what it is compared with
    fresh: bool = False
    #: name the holders of the memory that findings are about; None: not of cells that take long to simulate
    explain: bool | None = None


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The stacks and cells to run."""

    stacks: stack_plans.StackPlan
    matrix: cell_matrix.CellMatrix
    hardware: Hardware
    sources: CommitSources = {}  #: of the stacks that hold commits


def plan_run(settings: Settings, choice: Choice, installer: Installer) -> Planned:
    """Return stacks and cells of a call. An index is queried only for a release that is not known. Raise UsageError."""
    planned, sources = _with_sources(settings, choice, installer)
    here = planned_hardware(settings, installer)
    globs = cell_matrix.scenario_globs(choice.selection, settings.select)
    scenarios: Mapping[str, Scenario] = available_workloads.load_scenarios(settings, globs)
    if settings.as_of:
        newest = planned.stacks[-1]
        scenarios = scenarios_of_the_day(
            scenarios,
            globs,
            newest,
            lambda name, version: bool(installer.published(f"{name}=={version}")),
            lambda names: stack_locks.newest_beside(
                newest, dict.fromkeys(names, stack_plans.NEWEST_THAT_FITS), settings, installer
            ),
        )
    cells = cell_matrix.build_matrix(
        planned.stacks,
        scenarios,
        choice.selection,
        settings.select,
        here,
    )
    if choice.checkout is not None:  # somebody waits for two jobs, each of which costs a build and an import
        cells = cell_matrix.in_one_environment(cells)
    return Planned(stacks=planned, matrix=cells, hardware=here, sources=sources)


def _with_sources(
    settings: Settings, choice: Choice, installer: Installer
) -> tuple[stack_plans.StackPlan, CommitSources]:
    if choice.checkout is None:
        return plan_stacks(settings, choice, installer), {}
    if choice.pythons or choice.baseline is not None:
        what = "is compared with the commit that it comes from"
        raise UsageError(
            what, where="--source", hint="drop --python and --baseline; --against names that commit's branch"
        )
    package = choice.checkout.package

    def around(release: str) -> Stack:
        """Return the stack around a release of the framework: the packages that were chosen, else the configured ones."""
        versions = {**choice.versions, package: release}
        chosen = msgspec.structs.replace(choice, checkout=None, versions=versions, baseline=f"{package}=={release}")
        return plan_stacks(settings, chosen, installer).stacks[-1]

    return checkout_stacks.plan_checkout(choice.checkout, settings, installer, around)


def regress(
    settings: Settings,
    choice: Choice,
    planned: Planned,
    installer: Installer,
    watch: Watch,
    tried: Result | None = None,
    *,
    ends_first: bool = False,
) -> compare.Comparison:
    """Measure missing results, and compare everything that was selected. ``tried`` is the result of a cell that was run
    just now and would be repeated. With ``ends_first``, a program that fails alike with the first and the last release in
    sim is not run with those between.

    Raise HarnessError, KeyboardInterrupt; everything measured until then is stored. Raise UsageError before anything is
    built for a program that cannot be imported.
    """
    _check_programs(planned, settings, installer)
    for name, line in notes_on_programs(planned.matrix.cells).items():
        watch.note(f"{name}: {line}")
    with open_session(settings, (), watch, installer, planned.stacks.existing) as opened:
        opened.add_sources(planned.sources)
        selected = cells_to_compare(planned.matrix.cells, tried, watch)
        measure = functools.partial(opened.measure, baseline=planned.stacks.baseline, fresh=choice.fresh)
        results = [tried] if tried is not None else []
        if ends_first and are_many_simulations(selected):
            results += measure(_unmeasured((selected[0], selected[-1]), results))
            selected = cells_between(selected, results, watch)
        if choice.explain is not False:
            opened.keep_open_for(selected)
        cells = _unmeasured(selected, results)
        results = [*(measure(cells) if cells else []), *results]
        comparison = compare_results(results, planned.stacks.baseline.id, settings, opened.store)
        if choice.checkout is not None:
            comparison = msgspec.structs.replace(
                compare.without_old_faults(comparison), checkout=choice.checkout.folder
            )
        wanted = [(cell.stack.id, cell.workload) for cell in selected]
        comparison = _with_absent(comparison, wanted, "it was not run")
        if choice.explain is False:
            return comparison
        try:
            return explaining.attach(
                comparison, opened.explain_context, all_cells=choice.explain is True, report=watch.note
            )
        except HarnessError as error:  # what was measured is worth a report without it
            watch.note(f"memory explanations are missing: {error}")
            return comparison


def _unmeasured(cells: Iterable[Cell], results: Iterable[Result]) -> list[Cell]:
    there = {result.cell.id for result in results}
    return [cell for cell in cells if cell.id not in there]


def _check_programs(planned: Planned, settings: Settings, installer: Installer) -> None:
    """Raise UsageError naming what a program imports and its stack lacks; see `needed_packages`."""
    programs = {
        cell.scenario: cell for cell in planned.matrix.cells if "program" in cell.parameters and not cell.stack.existed
    }
    if not programs:
        return
    launches = available_workloads.launches(settings)
    for name, cell in programs.items():
        source = source_of(cell.environment_stack, planned.sources)
        stack = source.released(cell.environment_stack) if source else cell.environment_stack
        lock = stack_locks.lock_of_stack(stack, settings, installer)
        if name in launches and not isinstance(lock, NotInstalled):
            line = launch_line.parse(launches[name].line)
            needed_packages.check_imports(line, Path(launches[name].folder), lock.requirements)


def notes_on_programs(cells: Iterable[Cell]) -> dict[str, str]:
    """Return scenario -> facts that its user has to know about the run of the program."""
    programs: dict[str, list[Cell]] = {}
    for cell in cells:
        if "program" in cell.parameters:
            programs.setdefault(cell.scenario, []).append(cell)
    notes = {name: "; ".join(_program_notes(own)) for name, own in programs.items()}
    return {name: line for name, line in notes.items() if line}


def _program_notes(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the notes on one program."""
    if unread := launch_line.parse(str(cells[0].parameters["program"])).without_effect:
        yield f"{listing(unread)} of its launch line: read before it begins, so without effect here"
    is_given = is_given_program(cells[0].scenario)
    if is_given and any(cell.device == "cpu" and not cell.parameters.get("tiny") for cell in cells):
        yield "its models train on this processor in their own size; --tiny shrinks those of transformers"


def plan_stacks(settings: Settings, choice: Choice, installer: Installer) -> stack_plans.StackPlan:
    """Return the stacks of a call, the baseline first. Raise UsageError, EnvironmentUnavailable."""
    if choice.pythons and choice.baseline is not None:
        raise UsageError("the first --python is the baseline", where="--baseline", hint="drop --baseline")
    choice = with_newest(settings, choice, installer)
    if choice.pythons:
        built = _built(settings, choice, installer) if choice.versions or choice.stack else None
        specs = {**settings.stacks.get(choice.stack or "", {}), **choice.versions}
        return interpreters.plan_interpreters(settings, choice.pythons, built, specs, installer)
    return _built(settings, choice, installer)


def with_newest(settings: Settings, choice: Choice, installer: Installer) -> Choice:
    """Return the choice with a version for each package that it adds without one, and with what extras need. Raise
    UsageError."""
    choice = _with_extras(settings, choice, installer)
    given = {package: spec for package, spec in choice.versions.items() if spec != stack_plans.NEWEST_THAT_FITS}
    added = [package for package in choice.versions if package not in given]
    if not added:
        return choice
    planned = _built(settings, msgspec.structs.replace(choice, versions=given), installer)
    base = planned.baseline
    for package in added:
        own = base.versions.get(stack_plans.spelled_package(package, base.versions))
        if own is not None:
            hint = f"give the versions to compare: --with {package}=SPEC"
            raise UsageError(f"{package} is already in the stacks, as {own}", where="--with", hint=hint)
    limits = dict.fromkeys(added, stack_plans.NEWEST_THAT_FITS)
    found = stack_locks.newest_beside_all(planned.stacks, limits, settings, installer)
    if isinstance(found, NotInstalled):
        raise no_release_fits(added, found.signature)
    return msgspec.structs.replace(choice, versions={**given, **found})


def _with_extras(settings: Settings, choice: Choice, installer: Installer) -> Choice:
    """Return the choice with the packages of extras (``--with 'lightning[extra]'``) in place of those."""
    texts = {package: spec for package, spec in choice.versions.items() if "[" in package}
    if not texts:
        return choice
    given = {package: spec for package, spec in choice.versions.items() if package not in texts}
    wanted = [f"{package}{'==' if spec[:1].isdecimal() else ''}{spec}" for package, spec in texts.items()]
    named = {package: spec for package, spec in given.items() if spec != stack_plans.NEWEST_THAT_FITS}
    base = _built(settings, msgspec.structs.replace(choice, versions=named), installer).baseline
    try:
        found = locking.releases_with_extras(base, wanted, compile=installer.compile)
    except InvalidRequirement:
        hint = "write one release, or none: --with 'PACKAGE[EXTRA]=VERSION'"
        raise UsageError(f"not a package with extras: {listing(wanted, 2)}", where="--with", hint=hint) from None
    if isinstance(found, NotInstalled):
        raise no_release_fits([text.partition("[")[0] for text in texts], found.signature)
    return msgspec.structs.replace(choice, versions={**found, **given})


def no_release_fits(added: Sequence[str], reason: str) -> NoReleaseFits:
    """Return the error for packages that were added without a version. If the ``reason`` names none of them, the releases
    that were given exclude each other."""
    if any(re.search(rf"(?<![\w-]){re.escape(package)}(?![\w-])", reason) for package in added):
        hint = "check the names, or give versions: --with PACKAGE=VERSION"
        return NoReleaseFits(
            f"{', '.join(added)}: no release goes with the others: {reason}", where="--with", hint=hint
        )
    hint = "leave out the version of one of them: the newest release that goes with the others is taken"
    return NoReleaseFits(f"the releases given do not go together: {reason}", hint=hint)


def _built(settings: Settings, choice: Choice, installer: Installer) -> stack_plans.StackPlan:
    planned = stack_plans.plan_stacks(
        stack_plans.ConfiguredStacks(
            table={package: spec for package, spec in settings.stack.items() if package not in choice.left_out},
            baseline=settings.baseline,
            python=settings.python,
            named={
                name: {package: version for package, version in stack.items() if package not in choice.left_out}
                for name, stack in settings.stacks.items()
            },
            as_of=settings.as_of,
        ),
        name=choice.stack,
        overrides=choice.versions,
        chosen=choice.baseline,
        published=installer.published,
        locked=functools.partial(locking.locked_releases, stack_locks.locks_folder(settings)),
    )
    planned = cpu_torch.with_torch_for_here(planned, choice.versions, settings, installer)
    return day_partners.with_running_partners(planned, choice.versions, settings)


def compare_results(results: Iterable[Result], baseline: str, settings: Settings, store: Store) -> compare.Comparison:
    """Judge results of one store against the stack with the id ``baseline``."""
    return compare.compare(results, baseline, settings.thresholds, details_of([store]))


def compare_stored(
    stores: Sequence[Store],
    baseline: str,
    settings: Settings,
    problem: Callable[[str], None],
    stacks: Sequence[str] | None = None,
    scenario: str | None = None,
    unread: Sequence[str] = (),
) -> compare.Comparison:
    """Judge all stored results (of these stacks, of one scenario) against the stack with the id ``baseline``.

    ``unread`` are further sources, none of which can be read. ``problem`` gets a line for each file that cannot be read.
    Workloads are judged where they are read, by several processes; a cell's summary is read again when a report shows it.
    """
    stored = StoredWorkloads(stores, stacks, scenario)

    def read(workload: str, stack: str | None) -> Mapping[str, compare.ResultSummary]:
        return compare.ResultIndex(stored.read(workload, stack), baseline).read(workload)

    parts = stored.map(functools.partial(_judge_results, baseline=baseline, thresholds=settings.thresholds), problem)
    damaged: set[str] = set()

    def once(file: str, why: str) -> None:
        """Many results share a detail."""
        if file not in damaged:
            damaged.add(file)
            problem(next(store for store in stores if file.startswith(store.folder + os.sep)).problem(file, why))

    comparison = compare.combine(parts, read, baseline, settings.thresholds, details_of(stores, once))
    unread_cells = [*stored.unreadable, *stored.disputed]
    comparison = _with_absent(comparison, stored.unreadable, "its stored results cannot be read")
    comparison = _with(comparison, [_disputed(*cell) for cell in dict.fromkeys(stored.disputed)])
    empty = set(stacks or ()) - {stack.id for stack in comparison.stacks} - {stack for stack, _ in unread_cells}
    lost = [
        *(compare.not_measured(stack, "every workload", "it has no stored results") for stack in sorted(empty)),
        *(compare.not_measured(folder, "some workloads", "part of it cannot be read") for folder in stored.damaged),
        *(compare.not_measured(folder, "every workload", "it cannot be read") for folder in unread),
    ]
    comparison = _with(comparison, lost)
    explained = [store.folder for store in stores if not Explanations(store.folder).is_empty()]
    return explaining.attach_stored(comparison, explained_in(explained, once))


def _disputed(stack: str, workload: str) -> compare.NotCompared:
    """Return the entry for a cell of which a result was edited: whatever other results it has, it has not passed."""
    return compare.not_measured(
        stack, workload, "a result of it was damaged or edited", "restore the edited file, or remove it"
    )


def _with_absent(comparison: compare.Comparison, cells: Iterable[tuple[str, str]], reason: str) -> compare.Comparison:
    """Return the comparison with an entry for each of these cells, by stack and workload, that has no result in it."""
    there = comparison.cells
    absent = [
        compare.not_measured(stack, workload, reason)
        for stack, workload in dict.fromkeys(cells)
        if workload not in there.workloads or stack not in there.stacks_of(workload)
    ]
    return _with(comparison, absent)


def _with(comparison: compare.Comparison, entries: Sequence[compare.NotCompared]) -> compare.Comparison:
    return msgspec.structs.replace(comparison, not_compared=(*comparison.not_compared, *entries))


def details_of(stores: Sequence[Store], problem: Callable[[str, str], None] = silent) -> compare.DetailOf:
    """Return a function that reads the detail of a result from the first store that has it. ``problem`` gets damaged files,
    and why."""

    @functools.lru_cache(maxsize=64)  # most results share theirs with others, and each can be large
    def read(hashes: tuple[tuple[str, str], ...]) -> Detail:
        for store in stores:
            if (detail := store.detail(dict(hashes), problem)) is not None:
                return detail
        raise LookupError  # which is not remembered: another run may be about to write it

    def detail_of(result: Result) -> Detail | None:
        try:
            return read(tuple(result.detail_sha256.items()))
        except LookupError:
            return None

    return detail_of


def _judge_results(results: Iterable[Result], *, baseline: str, thresholds: compare.Thresholds) -> compare.Judged:
    return compare.judge_workloads(compare.ResultIndex(results, baseline), thresholds)


def new_installer(settings: Settings) -> Installer:
    """Return an installer under the user's own configuration of pip."""
    return Installer(environment=installer_environment(), offline=settings.offline, as_of=settings.as_of)
