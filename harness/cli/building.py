"""The environment of one stack, for a command that uses its interpreter itself."""

from __future__ import annotations

from harness.cli.progress import Progress
from harness.config.settings import Settings
from harness.envs.installer import Installer
from harness.errors import EnvironmentUnavailable
from harness.model import Environment, MachineFault, Stack
from harness.probe.border.machine import REMEDIES
from harness.run import targets
from harness.run.environments import build_environments
from harness.wording.names import outcome_text


def built_here(stack: Stack, settings: Settings, installer: Installer) -> Environment:
    """Return the virtual environment of a stack, on this machine whatever executor the settings name; built unless it
    exists.

    Nothing is run in it, so no scenario is read. Raise EnvironmentUnavailable if it cannot be built.
    """
    with Progress() as progress:
        build = targets.venv_build(settings, installer, note=progress.note)
        (environment,) = build_environments([stack], settings, installer, progress, build)
    if (failure := environment.failure) is not None:
        own = REMEDIES.get(failure.fault) if isinstance(failure, MachineFault) else None
        raise EnvironmentUnavailable(outcome_text(failure), where=stack.id, hint=own or "choose other versions")
    return environment
