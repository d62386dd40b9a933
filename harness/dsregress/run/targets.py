"""The targets of a run: the one table of executors. `--executor NAME` picks a line of it.

A target builds environments from locked stacks, knows the hardware that cells run on, and runs them. All executors share the
protocol in `dsregress.launch.contract`; see harness/dsregress/launch/README.md for how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dsregress.config.settings import Settings
from dsregress.config.variables import (
    child_environment,
    folder_on_node,
    installer_environment,
    models_of_the_user,
    prepare_ray,
    withheld,
)
from dsregress.envs import hardware, venv
from dsregress.envs.disk import DiskNeed, check_room, disk_need
from dsregress.envs.installer import Installer
from dsregress.envs.stack_images import ImageBuilder
from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.launch import staging
from dsregress.launch.contract import Executor, ProgramLaunch
from dsregress.launch.docker import DockerExecutor
from dsregress.launch.local import LocalExecutor
from dsregress.launch.ray.executor import RayExecutor
from dsregress.model import AXES, Environment, Hardware, LockedStack
from dsregress.run import available_workloads
from dsregress.system.obstacles import obstacle_error
from dsregress.wording.quantities import listing
from vgpu import isolation

#: Called from any thread with the index of a stack and ``started``, ``waiting`` (another run is building it) or ``done``.
BuildProgress = Callable[[int, str, Environment | None], None]

#: Called from any thread with a line for the user.
Note = Callable[[str], None]


class Build(Protocol):
    """Makes environments."""

    def __call__(self, locked: Sequence[LockedStack], progress: BuildProgress) -> tuple[Environment, ...]:
        """Return an environment for each, in order; a stack that does not install is one with its ``failure``.

        Raise EnvironmentUnavailable if the machine is at fault rather than a stack.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Target:
    """The executor of a run, and its environments and hardware."""

    executor: Executor
    build: Build
    hardware: Callable[[], Hardware]  #: what cells run on; called once the environments are built
    has_images: bool = False  #: environments are container images


def open_target(settings: Settings, installer: Installer, note: Note = lambda line: None) -> Target:
    """Return the target that the settings name. Start nothing. Raise UsageError, EnvironmentUnavailable."""
    if names := withheld():
        note(
            f"environment: measured processes do not get {listing(names)}; "
            "a program gets what its launch line sets: --program 'NAME=VALUE torchrun ...'"
        )
    return _executor_entry(settings).open(settings, installer, note)


def planned_hardware(settings: Settings, installer: Installer) -> Hardware:
    """Return the hardware that cells will run on, for planning: that of a cluster in the settings, else of this machine."""
    entry = _executor_entry(settings)
    if entry.is_elsewhere(settings):
        return entry.open(settings, installer, lambda line: None).hardware()
    return hardware.detect()


def varied_package(settings: Settings) -> str:
    """Return the package under test: the one for which the configured stack has a list of versions."""
    return next((name for name, spec in settings.stack.items() if not isinstance(spec, str)), AXES[-1])


def disk_need_here(settings: Settings, installer: Installer, locked: Sequence[LockedStack]) -> DiskNeed:
    """Return the disk space that virtual environments of these stacks take on this machine, beyond those already built."""
    return disk_need(locked, Path(settings.environments), installer, gpu=hardware.has_gpu())


def venv_build(
    settings: Settings,
    installer: Installer,
    sources: Mapping[str, venv.Source] = {},
    *,
    note: Note = lambda line: None,
) -> Build:
    """Return a `Build` of virtual environments on this machine. ``sources``, by stack id, are built in place of a pin.
    ``note`` gets a line on the disk space that they take, if that is much."""

    def build(locked: Sequence[LockedStack], progress: BuildProgress) -> tuple[Environment, ...]:
        need = disk_need_here(settings, installer, locked)
        if need.text:
            note(need.text)
        check_room(need, Path(settings.environments), installer.cache_folder)
        return venv.build_all(
            locked,
            folder=Path(settings.environments),
            installer=installer,
            gpu=hardware.has_gpu(),
            framework=varied_package(settings),
            sources=[sources.get(lock.stack.id) for lock in locked],
            progress=progress,
        )

    return build


def _local_target(settings: Settings, installer: Installer, note: Note) -> Target:
    """Return the target of virtual environments and processes on this machine."""
    programs = available_workloads.launches(settings)
    if any(Path(launch.folder).is_absolute() for launch in programs.values()):
        _tell_what_shields(settings, note)
    executor = LocalExecutor(
        folder=settings.environments,
        files=staging.probe_files(Path(settings.scenarios)),
        variables=child_environment(models_of_the_user() if programs else {}),
        timeout_s=settings.timeout_s,
        note=note,
        programs=programs,
    )
    return Target(executor=executor, build=venv_build(settings, installer, note=note), hardware=hardware.detect)


#: Note for the user before a program runs, by the protection of his files; empty if the program has a view of its own.
_SHIELDS = {
    isolation.VIEW: "",
    isolation.LANDLOCK: (
        "programs: this machine gives no process a view of its own of your files (user namespaces and overlays), so what "
        "a program writes outside its folder is refused"
    ),
    isolation.NONE: (
        "programs: nothing on this machine keeps your files from a program (no user namespaces, no Landlock): it works in "
        "a copy of its folder, but what it writes to other paths, or by links, stays; run it in a container or on a copy"
    ),
}


def _tell_what_shields(settings: Settings, note: Note) -> None:
    """Note how well the user's files are protected from programs. Raise EnvironmentUnavailable."""
    folder = Path(settings.environments)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        line = _SHIELDS[isolation.strongest(folder)]
    except OSError as error:
        what, hint = "cannot create a folder for the run", "check its permissions and the free disk space"
        raise obstacle_error(EnvironmentUnavailable, what, error, where=folder, hint=hint) from None
    if line:
        note(line)


def _docker(settings: Settings, installer: Installer, note: Note) -> Target:
    """Return the target of an image per stack and a container per server, by the engine on this machine."""
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
        note=note,
        programs=_staged(settings),
    )

    def build(locked: Sequence[LockedStack], progress: BuildProgress) -> tuple[Environment, ...]:
        executor.sweep()
        return builder.build_all(locked, progress)

    return Target(executor=executor, build=build, hardware=builder.hardware, has_images=True)


def _staged(settings: Settings) -> dict[str, ProgramLaunch]:
    """Return the programs whose folders exist wherever a cell runs."""
    return {
        name: one for name, one in available_workloads.launches(settings).items() if not Path(one.folder).is_absolute()
    }


@dataclass(frozen=True, kw_only=True)
class _RayNodeSide:
    """See `dsregress.launch.ray.node.NodeSide`."""

    configured: str  #: folder
    framework: str
    offline: bool

    def folder(self) -> Path:
        """Return the folder for environments and runs on the node."""
        return folder_on_node(self.configured)

    def variables(self) -> dict[str, str]:
        """Return the environment variables of measured processes."""
        return child_environment()

    def hardware(self) -> Hardware:
        """Return the hardware of the node."""
        return hardware.detect()

    def build(self, locked: LockedStack) -> Environment:
        """Build a stack on the node."""
        return venv.build_venv(
            locked,
            folder=self.folder(),
            installer=Installer(environment=installer_environment(), offline=self.offline),
            gpu=hardware.has_gpu(),
            framework=self.framework,
        )


def _ray(settings: Settings, installer: Installer, note: Note) -> Target:
    """Return the target of virtual environments and processes on the nodes of a Ray cluster."""
    prepare_ray()
    executor = RayExecutor(
        settings=settings.ray,
        files=staging.probe_files(Path(settings.scenarios)),
        side=_RayNodeSide(configured=settings.ray.folder, framework=varied_package(settings), offline=settings.offline),
        timeout_s=settings.timeout_s,
        programs=_staged(settings),
    )
    return Target(executor=executor, build=executor.build, hardware=executor.hardware)


@dataclass(frozen=True, kw_only=True)
class ExecutorEntry:
    """A line of the table."""

    summary: str  #: the place where cells run, for ``--help``
    open: Callable[[Settings, Installer, Note], Target]
    #: True if planning must query the target's hardware, as it is not this machine's.
    is_elsewhere: Callable[[Settings], bool] = lambda settings: False


EXECUTORS = {
    "local": ExecutorEntry(summary="in environments here", open=_local_target),
    "docker": ExecutorEntry(summary="in containers", open=_docker),
    "ray": ExecutorEntry(
        summary="on the nodes of a Ray cluster", open=_ray, is_elsewhere=lambda settings: bool(settings.ray.address)
    ),
}


def _executor_entry(settings: Settings) -> ExecutorEntry:
    """Return the configured line of the table. Raise UsageError."""
    if settings.executor not in EXECUTORS:
        raise UsageError(
            f"no such executor: {settings.executor}", where="--executor", hint=f"use {' or '.join(EXECUTORS)}"
        )
    return EXECUTORS[settings.executor]
