"""Runs cells on this machine: one probe server per environment, device mode and framework.

Each server runs under a keeper of its own (`dsregress.system.keeper`): no process that it started outlives it, or this
process, even after SIGKILL.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dsregress.launch import staging
from dsregress.launch.contract import ProgramLaunch
from dsregress.launch.one_machine import OneMachine
from dsregress.launch.process import ServerProcess
from dsregress.launch.worker import ServerWorker
from dsregress.model import Environment, Hardware
from dsregress.probe.border.surroundings import ENVIRONMENT, SKELETONS
from dsregress.wording.quantities import left_text

_LOG = logging.getLogger(__package__)


def caches_of(environment: Environment, folder: Path) -> Path:
    """Return the folder of an environment's compiled extensions and kernels, below the folder of all environments."""
    return folder / "caches" / f"{environment.stack.id}-{environment.lock_sha256[:12]}"


class _ServerWithEnd(ServerProcess):
    """Calls ``ended`` once it is closed."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        errors: str,
        ended: Callable[[], None],
    ) -> None:
        super().__init__(command, environment, folder, errors)
        self._ended = ended

    def close(self) -> None:
        super().close()
        self._ended()


class LocalExecutor:
    """See `dsregress.launch.contract.Executor`.

    ``folder`` holds caches, ``runs`` (default: a folder in it) the logs and the runs' own files; ``files`` is the code that
    measures, by `dsregress.launch.staging.probe_files`, and ``variables`` the allow-listed environment of the measured
    processes. ``note`` gets a line for the user if a release changed the copy of the probe that measured it, or left
    processes running that belong to no cell. ``programs`` has the launch of each of the user's programs, by its scenario.
    """

    def __init__(
        self,
        *,
        folder: str,
        files: Mapping[str, bytes],
        variables: Mapping[str, str],
        timeout_s: float,
        runs: Path | None = None,
        note: Callable[[str], None] = lambda line: None,
        programs: Mapping[str, ProgramLaunch] = {},
    ) -> None:
        self._probe_sha256 = staging.probe_sha256(files)
        self._folder = Path(folder)
        self._files = files
        self._note = note
        self._programs = programs
        self._runs = runs or self._folder / "runs"
        self._variables = dict(variables)
        self._timeout_s = timeout_s
        self._workers: list[ServerWorker] = []
        self._is_removal_noted = False  #: it concerns all servers at once

    def probe_sha256(self) -> str:
        return self._probe_sha256

    def cluster(self, hardware: Hardware) -> OneMachine:
        return OneMachine(self, hardware)

    def worker(self, environment: Environment, device: str, framework: str) -> ServerWorker:
        caches = caches_of(environment, self._folder)
        variables = {
            **self._variables,
            **ENVIRONMENT,
            "TORCH_EXTENSIONS_DIR": str(caches / "torch_extensions"),  # torch names them without the release's version
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "CUDA_CACHE_PATH": str(caches / "cuda"),
            SKELETONS: str(self._folder / "skeletons"),
        }
        command = [
            environment.python,
            "-m",
            "dsregress.probe.process.server",
            "--framework",
            framework,
            "--device",
            device,
        ]

        def start_server(home: Path, log: Path) -> ServerProcess:
            _LOG.debug("%s: start, for %s of %s", home.name, framework, environment.stack.id)
            probe = staging.copy(self._files, home / "probe")  # its own: a release can write to what it imports

            def ended() -> None:
                if changed := staging.foreign_entries(probe, self._files):
                    name = staging.names_text(changed)
                    self._note(
                        f"{environment.stack.id} changed the code that measured it ({name}): do not trust its results"
                    )
                elif staging.removals(probe, self._files):
                    self._note_removal()

            # What a release writes there is gone with its server, and it reads nothing of the user.
            own_home = home / "home"
            own_home.mkdir()
            paths = [str(probe), *([environment.beside] if environment.beside else [])]
            own = {**variables, "PYTHONPATH": os.pathsep.join(paths), "HOME": str(own_home)}
            return _ServerWithEnd([*command, "--log", str(log)], own, str(home), str(log), ended)

        def report(left: Mapping[str, int]) -> None:
            self._note(f"the server of {environment.stack.id} {left_text(left)}")

        worker = ServerWorker(start_server, self._runs, self._timeout_s, report=report, programs=self._programs)
        self._workers.append(worker)
        return worker

    def _note_removal(self) -> None:
        if not self._is_removal_noted:
            self._note(
                f"{self._runs}: files of a run were removed while it ran, by a release under test or a program that cleans "
                "up: what was not measured for it is measured by the next run"
            )
        self._is_removal_noted = True

    def close(self) -> None:
        for worker in self._workers:
            worker.interrupt()
