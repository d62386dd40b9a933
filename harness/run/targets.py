"""Where a run happens: the one table of executors. `--executor NAME` picks a line of it.

A place makes environments out of locked stacks, says what hardware cells run on, and runs them. What all executors share
is the protocol in `harness.launch.contract`; another one is a file in ``harness/launch`` and a line in `_PLACES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.config.settings import Settings
from harness.config.variables import child_environment, folder_on_node, installer_environment, prepare_ray
from harness.envs import hardware, venv
from harness.envs.images import ImageBuilder
from harness.envs.installer import Installer
from harness.errors import UsageError
from harness.launch import staging
from harness.launch.contract import Executor
from harness.launch.docker import DockerExecutor
from harness.launch.local import LocalExecutor
from harness.launch.ray.executor import RayExecutor
from harness.model import AXES, Environment, Hardware, LockedStack

#: Told, from any thread, the index of a stack and ``started``, ``waiting`` (another run builds it) or ``done``.
Progress = Callable[[int, str, Environment | None], None]


class Build(Protocol):
    """Makes environments."""

    def __call__(self, locked: Sequence[LockedStack], progress: Progress) -> tuple[Environment, ...]:
        """An environment for each, in order; a stack that does not install is one with its ``failure``.

        Raises EnvironmentUnavailable where the place is at fault rather than a stack.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run happens."""

    executor: Executor
    build: Build
    hardware: Callable[[], Hardware]  #: what cells run on, asked once the environments are there


def open_place(settings: Settings, installer: Installer) -> Place:
    """The place that the settings name. Starts nothing. Raises UsageError, EnvironmentUnavailable."""
    if settings.executor not in _PLACES:
        raise UsageError(
            f"no such executor: {settings.executor}", where="--executor", hint=f"use {' or '.join(_PLACES)}"
        )
    return _PLACES[settings.executor](settings, installer)


def planned_hardware(settings: Settings, installer: Installer) -> Hardware:
    """What cells will run on, as far as planning must know: asks a cluster that the settings name, starts nothing."""
    if settings.executor == "ray" and settings.ray.address:
        return open_place(settings, installer).hardware()
    return hardware.detect()


def varied_package(settings: Settings) -> str:
    """The package under test: the one that the configured stack gives a list of versions for."""
    return next((name for name, spec in settings.stack.items() if not isinstance(spec, str)), AXES[-1])


def _local(settings: Settings, installer: Installer) -> Place:
    """Virtual environments and processes on this machine."""

    def build(locked: Sequence[LockedStack], progress: Progress) -> tuple[Environment, ...]:
        return venv.build_all(
            locked,
            folder=Path(settings.environments),
            installer=installer,
            gpu=hardware.has_gpu(),
            framework=varied_package(settings),
            progress=progress,
        )

    executor = LocalExecutor(
        folder=settings.environments,
        files=staging.probe_files(Path(settings.scenarios)),
        variables=child_environment(),
        timeout_s=settings.timeout_s,
    )
    return Place(executor=executor, build=build, hardware=hardware.detect)


def _docker(settings: Settings, installer: Installer) -> Place:
    """An image per stack and a container per server, by the engine on this machine."""
    builder = ImageBuilder(
        folder=Path(settings.environments),
        installer=installer,
        limits=settings.docker,
        framework=varied_package(settings),
        gpu=hardware.has_gpu(),
    )
    executor = DockerExecutor(
        folder=settings.environments,
        scenarios=settings.scenarios,
        variables=child_environment(),
        timeout_s=settings.timeout_s,
        limits=settings.docker,
    )

    def build(locked: Sequence[LockedStack], progress: Progress) -> tuple[Environment, ...]:
        executor.sweep()
        return builder.build_all(locked, progress)

    return Place(executor=executor, build=build, hardware=builder.hardware)


@dataclass(frozen=True, kw_only=True)
class _Node:
    """See `harness.launch.ray.node.NodeSide`."""

    configured: str  #: folder
    framework: str
    offline: bool

    def folder(self) -> Path:
        return folder_on_node(self.configured)

    def variables(self) -> dict[str, str]:
        return child_environment()

    def hardware(self) -> Hardware:
        return hardware.detect()

    def build(self, locked: LockedStack) -> Environment:
        return venv.build(
            locked,
            folder=self.folder(),
            installer=Installer(environment=installer_environment(), offline=self.offline),
            gpu=hardware.has_gpu(),
            framework=self.framework,
        )


def _ray(settings: Settings, installer: Installer) -> Place:
    """Virtual environments and processes on the nodes of a Ray cluster."""
    prepare_ray()
    executor = RayExecutor(
        settings=settings.ray,
        files=staging.probe_files(Path(settings.scenarios)),
        side=_Node(configured=settings.ray.folder, framework=varied_package(settings), offline=settings.offline),
        timeout_s=settings.timeout_s,
    )
    return Place(executor=executor, build=executor.build, hardware=executor.hardware)


_PLACES: dict[str, Callable[[Settings, Installer], Place]] = {"local": _local, "docker": _docker, "ray": _ray}
