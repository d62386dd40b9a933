"""One scenario by its name, and the one cell that a text or options select."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Set

from dsregress.advice import gpus
from dsregress.advice.gpus import Card
from dsregress.cli.lines import print_note
from dsregress.cli.named_advisories import refuse_advisory
from dsregress.cli.options import WorkloadOptions
from dsregress.config.settings import Settings
from dsregress.envs import hardware
from dsregress.envs.installer import Installer
from dsregress.errors import UsageError, no_such
from dsregress.model import AXES, Cell, Stack
from dsregress.probe.scenario import Scenario
from dsregress.run import available_workloads, cell_matrix, pipeline, targets
from dsregress.run.available_workloads import Program
from dsregress.run.cell_matrix import Selection
from dsregress.store import Store, newest_by_cell
from dsregress.versions.releases import parsed_version
from dsregress.wording import commands

#: Preferred device modes: the real thing at a small size, else the simulation.
_DEVICES = ("cpu", "sim", "cuda")


def declared_scenario(settings: Settings, name: str) -> Scenario:
    """Return the scenario of that name. Raise UsageError if it does not exist."""
    scenarios = available_workloads.load_scenarios(settings, (name,))
    if name not in scenarios:
        raise no_such("scenario", name, scenarios, most=cell_matrix.MOST_NAMES)
    return scenarios[name]


def workload_if_here(scenario: str | None, program: Program | None, settings: Settings, without: str) -> str | None:
    """Return the workload that is named, as `available_workloads.measured_workload` does; None for a program that is not
    here, with a note that says what goes ``without`` it. Raise UsageError."""
    try:
        name = available_workloads.measured_workload(scenario, program, settings)
        declared_scenario(settings, name)  # a program that was given before may be gone
        return name
    except UsageError as error:
        if program is None:
            raise
        print_note(f"--program: {error.what}: {without}")
        return None


def declared_card(name: str, scenario: Scenario) -> Card | None:
    """Return the card that the scenario of that name declares, if it does. Raise UsageError if it is in no catalogue."""
    gpu = scenario.parameters.get("gpu")
    return None if gpu is None else gpus.card(gpu, where=f"{name}: gpu")


def one_cell(settings: Settings, stack: Stack, workload: WorkloadOptions, program: Program | None = None) -> Cell:
    """Return the cell of one stack. Raise UsageError if the options select no workload, several, or one that cannot be
    run."""
    name, device = available_workloads.chosen_workload(workload.scenario, program, settings), workload.device
    scenarios = available_workloads.load_scenarios(settings, (name,))
    if device is None and name in scenarios and scenarios[name].folder:  # a program's models are of their real size
        device = "sim"
    if device is None and name in scenarios:
        device = next((mode for mode in _DEVICES if mode in scenarios[name].devices), None)
    found = cell_matrix.build_matrix(
        (stack,),
        scenarios,
        Selection(scenarios=(name,), variants=(workload.variant,), devices=(device or cell_matrix.AUTO,)),
        (),
        hardware.detect(),
    )
    if len(found.cells) > 1:
        names = ", ".join(cell.workload for cell in found.cells[:6])
        raise UsageError(f"that matches {len(found.cells)} workloads: {names}", hint="name one")
    if not found.cells:
        skipped = found.skipped[0]
        raise UsageError(f"{skipped.workload}: {skipped.reason}", hint="take another --device")
    return found.cells[0]


def named_cell(
    text: str,
    settings: Settings,
    store: Store,
    installer: Installer,
    fixed: Mapping[str, str],
    package: str | None = None,
    like: Stack | None = None,
) -> Cell:
    """Return the one cell that ``text`` selects: an id, a glob of one that is stored, or VERSION/scenario/variant/device;
    with ``fixed`` packages, the last of these. VERSION is of ``package``, by default the one under test. Its other packages
    are those of the stack ``like``; without one, those that were measured, if possible none that were added. Raise
    UsageError."""
    package = package or targets.varied_package(settings)
    if fixed:
        return _planned(text, package, settings, installer, fixed)
    stored = {name: result.cell for name, result in newest_by_cell(store.load().results).items()}
    searches = [_matching(text, stored), _in_release(text, package, stored, like, {*AXES, *settings.stack, package})]
    if like is None or parsed_version(text.partition("/")[0]) is None:
        searches += [_matching(f"{text}*", stored), _matching(f"*-{package}{text}*", stored)]
    for found in searches:
        if len(found) == 1:
            return stored[found[0]]
        if found:
            names = ", ".join(found[:4])
            raise UsageError(f"{text} matches {len(found)} stored cells: {names}", where="cell", hint="name one")
    others = {} if like is None or like.existed else {**like.versions}
    others.pop(package, None)
    return _planned(text, package, settings, installer, others)


def _matching(pattern: str, stored: Mapping[str, Cell]) -> list[str]:
    return sorted(name for name in stored if name == pattern or fnmatch.fnmatchcase(name, pattern))


def _in_release(
    text: str, package: str, stored: Mapping[str, Cell], like: Stack | None, configured: Set[str]
) -> list[str]:
    """Return the cells that VERSION/scenario/variant/device selects, by id: of the stack ``like`` but for its release, else
    of stacks without other packages than the ``configured`` ones, if any."""
    version, _, workload = text.partition("/")
    found = {
        name: cell.stack.versions
        for name, cell in stored.items()
        if cell.stack.versions.get(package) == version
        and (cell.workload == workload or fnmatch.fnmatchcase(cell.workload, workload))
    }
    if like is not None and not like.existed:
        return sorted(
            name for name, versions in found.items() if {**versions, package: ""} == {**like.versions, package: ""}
        )
    plain = sorted(name for name, versions in found.items() if versions.keys() <= configured)
    return plain or sorted(found)


def _planned(text: str, package: str, settings: Settings, installer: Installer, fixed: Mapping[str, str]) -> Cell:
    """Return a cell that need not be measured: a release on the configured stack, with ``fixed`` packages."""
    refuse_advisory(text, "cell")
    parts = text.split("/")
    if len(parts) != 4:
        raise UsageError(
            f"no stored cell is {text}",
            where="cell",
            hint=f"write VERSION/scenario/variant/device, or see `{commands.SHOW}`",
        )
    stack, scenario, variant, device = parts
    version = stack.rpartition(f"-{package}")[2].partition("-")[0] if f"-{package}" in stack else stack
    selection = Selection(scenarios=(scenario,), variants=(variant,), devices=(device,))
    choice = pipeline.Choice(
        versions={**fixed, package: version}, baseline=f"{package}=={version}", selection=selection
    )
    planned = pipeline.plan_run(settings, choice, installer)
    found = [cell for cell in planned.matrix.cells if stack in (cell.stack.id, cell.stack.versions.get(package))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{text} matches {len(found)} cells", where="cell", hint="name one workload")
    skipped = [f"{one.workload}: {one.reason}" for one in planned.matrix.skipped]
    raise UsageError(
        skipped[0] if skipped else f"no such cell: {text}", where="cell", hint=f"`{commands.SCENARIOS}` lists them"
    )
