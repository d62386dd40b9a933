"""The part that runs on a node of a Ray cluster: an actor that hosts one probe server.

On its node it does what this process does here: builds the environment unless it exists, starts the server in it, and passes
its answers on. It dies with the job that started it, and the server with it.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from dsregress.errors import EnvironmentUnavailable
from dsregress.launch.contract import Ended, ProgramLaunch, RankShare, RunPlan, Waiting
from dsregress.launch.local import LocalExecutor
from dsregress.launch.worker import ServerWorker
from dsregress.model import Cell, Environment, Hardware, LockedStack
from dsregress.probe.border.ports import held_port
from dsregress.system.locks import try_lock
from vgpu.trees import remove_tree

#: Lock file in a folder for runs, held by its actor.
_LOCK = "held.lock"


class NodeSide(Protocol):
    """Facts about a node, and work done on it. Travels there; each of its methods is called there."""

    def folder(self) -> Path:
        """Return the folder of environments and scratch files."""
        ...

    def variables(self) -> dict[str, str]:
        """Return the allow-listed environment of measured processes."""
        ...

    def hardware(self) -> Hardware:
        """Return the hardware of the node."""

    def build(self, locked: LockedStack) -> Environment:
        """Return the stack's environment: the existing one if it is complete, else built now. Raise
        EnvironmentUnavailable."""
        ...


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A server's surroundings."""

    environment: Environment
    hardware: Hardware


class NodeWorker:
    """A `dsregress.launch.contract.Worker` on its node. `interrupt` may be called during any other call."""

    def __init__(
        self,
        side: NodeSide,
        files: Mapping[str, bytes],
        locked: LockedStack,
        device: str,
        framework: str,
        timeout_s: float,
        programs: Mapping[str, ProgramLaunch],
    ) -> None:
        self._side = side
        self._files = files
        self._locked = locked
        self._device, self._framework = device, framework
        self._timeout_s = timeout_s
        self._programs = programs
        self._runs: _RunsFolder | None = None
        self._worker: ServerWorker | None = None
        self._failed: Ended | None = None
        self._port = contextlib.ExitStack()  #: holds the one at which ranks meet

    def open(self) -> Opened:
        """Build and import; return when the framework is imported or cannot be. Raise EnvironmentUnavailable."""
        environment = self._side.build(self._locked)
        if environment.failure is not None:
            self._failed = Ended(outcome=environment.failure)
        elif self._worker is None:
            folder = self._side.folder()
            self._runs = _RunsFolder(folder / "runs")
            executor = LocalExecutor(
                folder=str(folder),
                files=self._files,
                variables=self._side.variables(),
                timeout_s=self._timeout_s,
                runs=self._runs.folder,
                programs=self._programs,
                note=lambda line: print(line, file=sys.stderr),  # noqa: T201 (into the log of the node)
            )
            self._worker = executor.worker(environment, self._device, self._framework)
        if self._worker is not None:
            self._worker.wait_until_open()
        return Opened(environment=environment, hardware=self._side.hardware())

    def rendezvous(self) -> str:
        """Return where the other ranks can meet a rank 0 that runs here. The port is held until the next cell."""
        import ray

        self._port.close()
        address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        return f"tcp://{address}:{self._port.enter_context(held_port(address))}"

    def start(self, cell: Cell, plan: RunPlan, share: RankShare | None) -> Waiting | Ended:
        """Run the untimed part of a cell."""
        if self._failed is not None:
            return self._failed
        assert self._worker is not None, "has not been opened"
        return self._worker.start(cell, plan, share)

    def round(self) -> Waiting | Ended:
        """Run one timed round of the waiting cell."""
        assert self._worker is not None
        return self._worker.round()

    def stop(self) -> Ended:
        """End the waiting cell, which keeps its rounds."""
        assert self._worker is not None
        return self._worker.stop()

    def interrupt(self) -> None:
        """Kill all that runs."""
        if self._worker is not None:
            self._worker.interrupt()

    def close(self) -> None:
        """End everything that the worker started."""
        if self._worker is not None:
            self._worker.close()
        if self._runs is not None:
            self._runs.close()
        self._port.close()


class _RunsFolder:
    """A folder for the runs of one actor, held as long as it lives. Making one removes those that no actor holds."""

    def __init__(self, parent: Path) -> None:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(dir=parent, prefix="node-"))
            self._lock = try_lock(self.folder / _LOCK)
        except OSError as error:
            raise EnvironmentUnavailable(
                f"cannot create a folder for the runs: {error.strerror}",
                where=str(parent),
                hint="set [tool.dsregress.ray] folder to one that can be written on every node",
            ) from None
        for other in parent.glob("node-*"):
            if other != self.folder:
                _remove_unless_held(other)

    def close(self) -> None:
        """Remove the folder."""
        remove_tree(self.folder)
        if self._lock is not None:
            self._lock.release()


def _remove_unless_held(folder: Path) -> None:
    """Remove a folder for runs that no actor holds. One that was made microseconds ago may not be held yet; its cell then
    fails, and runs again."""
    with contextlib.suppress(OSError):
        lock = try_lock(folder / _LOCK)
        if lock is not None:
            remove_tree(folder)
            lock.release()
