"""Existing interpreters as stacks of a run: compared with each other, and with stacks that are built."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from dsregress.config.settings import Settings
from dsregress.config.variables import child_environment
from dsregress.envs import existing
from dsregress.envs.installer import Installer
from dsregress.errors import UsageError
from dsregress.model import Environment
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.run.targets import varied_package
from dsregress.versions import locking
from dsregress.versions.stack_plans import StackPlan, resolve, spelled_package
from dsregress.wording.names import varied_axes


def plan_interpreters(
    settings: Settings, paths: Sequence[str], built: StackPlan | None, specs: Mapping[str, str], installer: Installer
) -> StackPlan:
    """Return the interpreters, the first of which is the baseline, and the stacks of ``built`` that ``specs`` request:
    package -> spec. Stacks that would only serve as a baseline are left out.

    Raise UsageError, EnvironmentUnavailable.
    """
    environments = environments_of(settings, paths, specs, installer)
    stacks = [environment.stack for environment in environments]
    if built is not None:
        wanted = {spelled_package(package, settings.stack): spec for package, spec in specs.items()}
        releases = {package: resolve(package, spec, installer.published) for package, spec in wanted.items()}
        stacks += [
            stack
            for stack in built.stacks
            if all(stack.versions.get(package) in found for package, found in releases.items())
        ]
    return StackPlan(
        stacks=tuple(stacks),
        baseline=stacks[0],
        axes=tuple(axis for axis in varied_axes(stacks) if axis != "python"),
        existing=environments,
    )


def environments_of(
    settings: Settings, paths: Sequence[str], packages: Collection[str], installer: Installer
) -> tuple[Environment, ...]:
    """Return an environment for each interpreter, whose stack also names ``packages`` that it has. Raise UsageError,
    EnvironmentUnavailable."""
    if settings.executor != "local":
        hint = "drop --executor"
        raise UsageError(f"cannot be combined with the executor {settings.executor}", where="--python", hint=hint)
    found: dict[str, tuple[str, Environment]] = {}
    for path in paths:
        environment = existing.read_interpreter(
            path,
            named={*settings.stack, *packages},
            needs=existing.ProbeNeeds(
                package="torch" if "torch" in settings.stack else varied_package(settings),
                tools=locking.TOOLS,
                pins=locking.base_pins(),
            ),
            variables={**child_environment(), **ENVIRONMENT},
            folder=Path(settings.environments),
            installer=installer,
        )
        first, _ = found.setdefault(environment.stack.id, (path, environment))
        if first != path:
            hint = "drop one of them"
            raise UsageError(f"{first} and {path} hold the same packages and code", where="--python", hint=hint)
    return tuple(environment for _, environment in found.values())
