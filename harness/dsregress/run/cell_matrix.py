"""Stacks x scenarios x variants x device modes -> the cells to run, and the reasons why the others are skipped. Pure.

Cells are chosen by globs, one per field; a glob that matches nothing is an error that names the existing names, because a
selection that silently shrinks would look like a pass.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dsregress.errors import UsageError, no_such
from dsregress.model import Cell, Hardware, Stack
from dsregress.probe import oldest_torch
from dsregress.probe.scenario import (
    DEVICES,
    PACKAGES,
    Scenario,
    ScenarioError,
    parse_variant,
    variant_id,
)
from dsregress.wording import commands
from dsregress.wording.quantities import listing

#: As a device: `cuda` if a GPU is present and the scenario runs on it, else every GPU-less mode that it runs in.
AUTO = "auto"

_GLOB_CHARACTERS = frozenset("*?[")

#: Most scenarios and variants that an error lists.
MOST_NAMES = 8


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Globs as given on the command line; an empty field was not given."""

    scenarios: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


class SkippedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A selected workload that runs on no stack, or not on all."""

    workload: str  #: scenario/variant/device
    reason: str


class CellMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """The cells to run. Cells of one workload are neighbours, in the order of the stacks."""

    cells: tuple[Cell, ...]
    skipped: tuple[SkippedCell, ...]

    @property
    def workloads(self) -> dict[str, tuple[Cell, ...]]:
        """Workload -> its cells, one per stack, which are measured side by side."""
        grouped: dict[str, list[Cell]] = {}
        for cell in self.cells:
            grouped.setdefault(cell.workload, []).append(cell)
        return {workload: tuple(cells) for workload, cells in grouped.items()}


def build_matrix(
    stacks: Sequence[Stack],
    scenarios: Mapping[str, Scenario],
    selection: Selection,
    default: Sequence[str],
    hardware: Hardware,
) -> CellMatrix:
    """Return the matrix of a run.

    ``default`` has globs over ``scenario/variant/device`` for a plain run. ``--device`` alone runs that same default
    elsewhere; ``--scenario`` or ``--variant`` replace it. With several scenarios, a variant is run in those that have it.
    Raise UsageError for a glob that matches nothing, and for a stack to be built whose torch is too old for each of its
    cells.
    """
    cells: list[Cell] = []
    skipped: dict[str, str] = {}
    listed: set[str] = set()
    for name, variant, device in _expand(_patterns(selection, default), scenarios, hardware, skipped):
        workload = f"{name}/{variant}/{device}"
        if workload in listed:
            continue
        listed.add(workload)
        reason = _obstacle(scenarios[name], device, hardware)
        if reason:
            skipped[workload] = reason
        else:
            told = _told_apart(stacks, scenarios[name])
            if len(told) < len(stacks):
                skipped[workload] = f"other releases of {listing(scenarios[name].unused)}, which it does not use"
            cells += _cells_of_variant(told, name, scenarios[name], variant, device)
    _refuse_old_torch(cells)
    return CellMatrix(
        cells=tuple(cells),
        skipped=tuple(SkippedCell(workload=workload, reason=reason) for workload, reason in skipped.items()),
    )


def in_one_environment(matrix: CellMatrix) -> CellMatrix:
    """Return the cells with the further packages of all of them, so that a stack is built, and imported, once; as they are
    if two ask for different releases of one package."""
    wanted: dict[str, str] = {}
    for cell in matrix.cells:
        for package, version in (cell.parameters.get(PACKAGES) or {}).items():
            if package not in cell.stack.versions and wanted.setdefault(package, version) != version:
                return matrix
    if not wanted:
        return matrix
    cells = (
        msgspec.structs.replace(
            cell, parameters={**cell.parameters, PACKAGES: {**wanted, **(cell.parameters.get(PACKAGES) or {})}}
        )
        for cell in matrix.cells
    )
    return msgspec.structs.replace(matrix, cells=tuple(cells))


def scenario_globs(selection: Selection, default: Sequence[str]) -> tuple[str, ...]:
    """Return the globs over names of scenarios that `build` would use. Raise UsageError."""
    return tuple(dict.fromkeys(pattern.scenario for pattern in _patterns(selection, default)))


class _Pattern(NamedTuple):
    """Globs over workloads."""

    scenario: str
    variant: str
    device: str
    beside: tuple[str, ...]  #: globs of scenarios, one of which must have the variant


def _patterns(selection: Selection, default: Sequence[str]) -> list[_Pattern]:
    """Return the patterns in the order to run them."""
    if selection.scenarios or selection.variants:
        beside = selection.scenarios or ("*",)
        return [
            _Pattern(scenario, variant, device, beside)
            for scenario in beside
            for variant in selection.variants or ("*",)
            for device in selection.devices or (AUTO,)
        ]
    patterns: list[_Pattern] = []
    for text in default:
        parts = text.split("/")
        if len(parts) != 3 or not all(parts):
            raise UsageError(
                f"not a selection: {text!r}",
                where="[tool.dsregress] select",
                hint="write scenario/variant/device, each a name or a glob",
            )
        beside = (parts[0],)
        patterns += [_Pattern(parts[0], parts[1], device, beside) for device in selection.devices or (parts[2],)]
    return patterns


def _expand(
    patterns: Iterable[_Pattern], scenarios: Mapping[str, Scenario], hardware: Hardware, skipped: dict[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the (scenario, variant, device) that patterns match. ``skipped`` gets the scenarios that lack a variant of
    others."""
    for pattern in patterns:
        names = _scenario_names(pattern.scenario, scenarios)
        variants = {name: own for name in names if (own := _own_variants(scenarios[name], pattern.variant))}
        if not variants:
            _check_variant(pattern, scenarios)
            skipped[f"{pattern.scenario}/{pattern.variant}"] = "the scenario has no such variant"
            continue
        devices = {name: _device_modes(scenarios[name], pattern.device, hardware) for name in variants}
        if not any(devices.values()):
            raise no_such("device", pattern.device, DEVICES, where=listing(list(variants), 3))
        for name, own in variants.items():
            yield from ((name, variant, device) for variant in own for device in devices[name])


def _own_variants(scenario: Scenario, glob: str) -> list[str]:
    """Return the same as `_variants`; none if the scenario lacks the variant that the text spells out."""
    try:
        return _variants(scenario, glob)
    except ScenarioError:
        return []


def _scenario_names(glob: str, scenarios: Mapping[str, Scenario]) -> list[str]:
    names = fnmatch.filter(scenarios, glob)
    if not names:
        raise no_such("scenario", glob, scenarios, most=MOST_NAMES)
    return names


def _check_variant(pattern: _Pattern, scenarios: Mapping[str, Scenario]) -> None:
    """Raise UsageError if none of the pattern's scenarios has the variant."""
    names = list(dict.fromkeys(name for glob in pattern.beside for name in _scenario_names(glob, scenarios)))
    complaints = []
    for name in names:
        try:
            if _variants(scenarios[name], pattern.variant):
                return
        except ScenarioError as error:
            complaints.append(f"{name}: {error}")
    if complaints:
        raise UsageError(complaints[0], hint=f"`{commands.SCENARIOS}` lists scenarios with their variants")
    declared = {variant: None for name in names for variant in scenarios[name].variant_ids}
    raise no_such("variant", pattern.variant, declared, where=listing(names, 3), most=MOST_NAMES)


def _variants(scenario: Scenario, glob: str) -> list[str]:
    """Return the declared variants that match; else remedies, by their name or as a variant, which no glob over everything
    should run; else the variant that the text spells out. Raise ScenarioError."""
    declared = fnmatch.filter(scenario.variant_ids, glob)
    if not declared:
        declared = [v for name, v in scenario.remedy_ids.items() if fnmatch.filter((name, v), glob)]
    if declared or _GLOB_CHARACTERS & set(glob) or ("=" not in glob and glob != "base"):
        return declared
    return [variant_id(parse_variant(glob, scenario.parameters))]


def _device_modes(scenario: Scenario, glob: str, hardware: Hardware) -> list[str]:
    """Return device modes by name or glob. A glob matches those that the scenario runs in; a name is kept, so that it is
    reported as skipped."""
    if glob == AUTO:
        if hardware.gpus and "cuda" in scenario.devices:
            return ["cuda"]
        return [device for device in DEVICES if device in scenario.devices and device != "cuda"] or ["cuda"]
    if _GLOB_CHARACTERS & set(glob):
        return fnmatch.filter(scenario.devices, glob)
    if glob not in DEVICES:
        raise UsageError(f"no such device: {glob}", hint=f"there are: {', '.join((*DEVICES, AUTO))}")
    return [glob]


def _obstacle(scenario: Scenario, device: str, hardware: Hardware) -> str:
    if device not in scenario.devices:
        return f"the scenario does not run on {device} (it runs on: {', '.join(scenario.devices)})"
    if device == "cuda" and not hardware.gpus:
        return "this machine has no GPU"
    return ""


def _told_apart(stacks: Sequence[Stack], scenario: Scenario) -> Sequence[Stack]:
    """Return the stacks that differ in what the scenario uses: of those that do not, the first."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], Stack] = {}
    for stack in stacks:
        used = frozenset(pin for pin in stack.versions.items() if pin[0] not in scenario.unused)
        found.setdefault((stack.python, used), stack)
    return list(found.values())


def _cells_of_variant(
    stacks: Sequence[Stack], name: str, scenario: Scenario, variant: str, device: str
) -> Iterable[Cell]:
    try:
        parameters = scenario.resolve(variant, device)
    except ScenarioError as error:
        raise UsageError(str(error), where=name) from None
    for stack in stacks:
        yield Cell(
            stack=stack,
            scenario=name,
            scenario_version=scenario.version,
            variant=variant,
            device=device,
            framework=scenario.framework,
            parameters=parameters,
        )


def _refuse_old_torch(cells: Iterable[Cell]) -> None:
    """Raise UsageError for a stack that would be built for nothing."""
    devices: dict[Stack, set[str]] = {}
    for cell in cells:
        if "torch" in cell.stack.versions and not cell.stack.existed:
            devices.setdefault(cell.stack, set()).add(cell.device)
    for stack, own in devices.items():
        refusals = [oldest_torch.too_old(stack.versions["torch"], device) for device in sorted(own)]
        if refusals[0] is not None and all(refusals):
            what, hint = refusals[0]
            raise UsageError(what, where="--torch", hint=hint)
