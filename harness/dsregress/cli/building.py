"""The environment of one stack, for a command that uses its interpreter itself."""

from __future__ import annotations

from dsregress.cli.progress import Progress
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Environment, MachineFault, Stack
from dsregress.probe.border.machine import REMEDIES
from dsregress.run import targets
from dsregress.run.stack_environments import build_environments
from dsregress.wording.names import outcome_text


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
