"""A probe server and the cells it runs, wherever it runs: the host's side of the dialogue in docs/architecture.md.

The server (`dsregress.probe.process.server`) imports the framework once and forks each cell from there. It enforces the
cell's timeout; the outer one, for a server that hangs, is here. Executors differ in how a server is started and how its
death is noticed: that is a `Server`.
"""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import msgspec

from dsregress.errors import EnvironmentUnavailable
from dsregress.launch import run_files
from dsregress.launch.contract import Ended, ProgramLaunch, RankShare, RunPlan, Waiting
from dsregress.launch.process import Gone, Hung
from dsregress.model import Cell, Failed, MachineFault, Outcome, OutOfMemory, Passed, TimedOut
from dsregress.probe.border import machine
from dsregress.probe.border.encoding import bounded_text
from dsregress.probe.border.faults import (
    DETAIL_LENGTH,
    INSTRUCTION_LENGTH,
    SIGNATURE_LENGTH,
    STAGE_LENGTH,
    without_folders,
)
from dsregress.probe.border.masking import MASK, masked_launch_line
from dsregress.probe.border.untrusted import read_tail
from dsregress.probe.border.wire import CellRequest
from dsregress.system import clock
from dsregress.system.obstacles import obstacle_error
from vgpu.trees import remove_tree

_LOG = logging.getLogger(__package__)

#: Seconds beyond the cell's own timeout in which its server must act on it.
_OUTER_GRACE_S = 30.0

_LOG_TAIL_BYTES = 1500

#: Folder next to the runs: results of plain PyTorch, kept for all releases.
_TRUTHS = "truths"

#: Folder, in that of a run, of the files that a program's script writes before it starts it.
_FILES_OF_SCRIPT = "files-of-its-script"


class Server(Protocol):
    """A running server, and the two pipes to it, for example a `dsregress.launch.process.ServerProcess`."""

    @property
    def left(self) -> Mapping[str, int]:
        """Processes that it started and left running, once it has been killed or closed: name -> count."""
        ...

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message. Raise Gone."""

    def receive(self, timeout_s: float) -> dict[str, object]:
        """Return the next message. Raise Gone, Hung."""
        ...

    def interrupt(self) -> None:
        """Kill the server without waiting, from any thread; `receive` then raises Gone."""

    def kill(self, grace_s: float = 0.0) -> str:
        """Kill the server, at once or if it has not ended by itself in time. Return how it ended. May be called twice."""
        ...

    def close(self) -> None:
        """Let the server end by itself, else kill it."""


#: Starts a server in a folder, with its output going to a file. Raises OSError if it does not start.
StartServer = Callable[[Path, Path], Server]


class ServerWorker:
    """See `dsregress.launch.contract.Worker`.

    ``start_server`` starts a server, given its folder and the file for its log; folders of servers and cells are made in
    ``runs``. With ``owner``, those folders belong to that user, as whom the server runs. ``report`` gets the processes that
    a server left running and that belong to no cell. With ``limited_memory``, a server has a limit of its own, the same in
    every run: a cell that exceeds it is too large, whatever else the machine does.
    """

    def __init__(
        self,
        start_server: StartServer,
        runs: Path,
        timeout_s: float,
        owner: int | None = None,
        report: Callable[[Mapping[str, int]], None] = lambda left: None,
        *,
        limited_memory: bool = False,
        programs: Mapping[str, ProgramLaunch] = {},
    ) -> None:
        self._start_server = start_server
        self._runs = runs
        self._owner = owner
        self._limited_memory = limited_memory
        self._programs = programs
        self._timeout_s = timeout_s
        self._report = report
        self._server: Server | None = None
        self._ready = False
        self._unusable: Outcome | None = None  #: why the framework cannot be imported
        self._home = Path()
        self._run: _CellRun | None = None

    def open(self) -> None:
        """Start importing the framework; return at once."""
        if self._server is not None or self._unusable is not None:
            return
        self._home = _new_folder(self._runs, "server-", self._owner)
        try:
            self._server = self._start_server(self._home, self._log)
        except OSError as error:
            late = isinstance(error, TimeoutError)
            fault = machine.of_error(error) or (machine.BUSY if late else machine.NO_START)
            self._unusable = MachineFault("import", fault, f"its interpreter cannot be started: {error.strerror}")
            _LOG.debug("%s: does not start: %s", self._home.name, error)

    def wait_until_open(self) -> None:
        """Wait until the framework is imported or cannot be."""
        self.open()
        if self._ready or self._server is None:
            return
        try:
            while not self._ready:
                event = self._server.receive(self._timeout_s + _OUTER_GRACE_S)
                if event.get("event") == "import_failed":
                    stage = bounded_text(event.get("stage", "import"), STAGE_LENGTH)
                    signature = bounded_text(event.get("signature", ""), INSTRUCTION_LENGTH)
                    detail = bounded_text(event.get("detail", ""))[-DETAIL_LENGTH:]
                    fault = bounded_text(event.get("machine_fault", ""), SIGNATURE_LENGTH)
                    self._unusable = _failure(stage, signature, detail, fault)
                    self._shut()
                    return
                self._ready = event.get("event") == "ready"
            _LOG.debug("%s: ready, its framework is imported", self._home.name)
        except Gone as gone:
            self._unusable = _death("import", "the import", gone, self._log_tail(), self._home)
            self._shut()
        except Hung:
            self._unusable = TimedOut(stage="import", limit_s=self._timeout_s)
            self._shut()

    def start(self, cell: Cell, plan: RunPlan, share: RankShare | None = None) -> Waiting | Ended:
        """Start a cell. With a ``share``, only its ranks; the others run on other machines."""
        self.wait_until_open()
        self._run = run = _CellRun(_new_folder(self._runs, "run-", self._owner))
        if self._unusable is not None:
            return self._end(Ended(outcome=self._unusable))
        launch = self._programs.get(cell.scenario, ProgramLaunch("", ""))
        parameters = _with_line(cell.parameters, launch.line)
        if parameters is None:
            return self._end(Ended(outcome=Failed("harness", _NO_SECRET)))
        place = run.folder / _FILES_OF_SCRIPT
        request = CellRequest(
            scenario=cell.scenario,
            variant=cell.variant,
            device=cell.device,
            parameters=parameters,
            framework=cell.framework,
            warmup_rounds=plan.warmup_rounds,
            rounds=plan.rounds,
            huge_pages=plan.huge_pages,
            short_turns=plan.short_turns,
            timeout_s=self._timeout_s,
            explain=plan.explain,
            room_bytes=plan.room_bytes,
            program_folder=launch.folder,
            found=launch.found or (str(place) if launch.written else ""),
            kept=os.path.join(launch.kept, cell.stack.id) if launch.kept and not plan.explain else "",
            truths=str(self._runs.parent / _TRUTHS),
            **({} if share is None else msgspec.structs.asdict(share)),
        )
        try:
            for name, text in launch.written:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text, encoding="utf-8")
            run.begin(json.dumps(asdict(request)))
        except OSError as error:
            fault = machine.of_error(error) or machine.DISK_FAILS
            return self._end(Ended(outcome=MachineFault(run.stage, fault, f"its request: {error.strerror}")))
        return self._advance({"do": "start", "folder": str(run.folder)})

    def round(self) -> Waiting | Ended:
        """Run one timed round of the waiting cell."""
        return self._advance({"do": "round"})

    def stop(self) -> Ended:
        """End the waiting cell, which keeps its rounds."""
        ended = self._advance({"do": "stop"})
        return ended if isinstance(ended, Ended) else self._lost(Failed(stage="harness", signature="did not stop"))

    def close(self) -> None:
        """End everything that the worker started."""
        self._shut()
        self._unusable = None  # opened again, it imports again

    def _shut(self) -> None:
        server, self._server, self._ready = self._server, None, False
        if server is not None:
            server.close()
            _LOG.debug("%s: ended", self._home.name)
            if server.left:
                self._report(server.left)
            if self._unusable is None:
                remove_tree(self._home)

    def interrupt(self) -> None:
        """Kill all that runs, from any thread."""
        server = self._server
        if server is not None:
            server.interrupt()

    def _advance(self, command: dict[str, object]) -> Waiting | Ended:
        """Send a command and follow the cell until it waits or has ended."""
        run, server = self._run, self._server
        assert run is not None, "no cell has been started"
        assert server is not None, "no cell has been started"
        begun = time.monotonic()
        try:
            server.send(command)
            while True:
                message = server.receive(self._timeout_s + _OUTER_GRACE_S)
                if message.get("event") == "beat":
                    run.stage = bounded_text(message.get("stage", run.stage), STAGE_LENGTH)
                elif message.get("event") == "waiting":
                    run.active_s += time.monotonic() - begun
                    return Waiting(_round_seconds(message.get("round_s")))
                elif message.get("event") == "ended":
                    run.active_s += time.monotonic() - begun
                    run.left = _counts(message.get("left"))
                    return self._end(run_files.read_end_of_run(run.folder, self._timeout_s))
        except Gone as gone:
            run.active_s += time.monotonic() - begun
            return self._lost(_death(run.stage, "the probe's server", gone, self._log_tail(), run.folder))
        except Hung:
            run.active_s += time.monotonic() - begun
            server.kill()
            self.close()
            return self._end(Ended(outcome=TimedOut(stage=run.stage, limit_s=self._timeout_s)))

    def _lost(self, outcome: Outcome) -> Ended:
        """End the cell of a server that is gone; the next cell gets a new one."""
        self.close()
        return self._end(Ended(outcome=outcome))

    def _end(self, ended: Ended) -> Ended:
        run, self._run = self._run, None
        assert run is not None
        outcome = ended.outcome
        if run.is_removed and not isinstance(outcome, Passed | MachineFault):
            outcome = MachineFault(run.stage, machine.REMOVED, "it left no output")
        if self._limited_memory and isinstance(outcome, MachineFault) and outcome.fault == machine.MEMORY:
            outcome = OutOfMemory(phase=outcome.stage, detail=outcome.signature)
        if ended.record is not None and ended.record.outcome == "passed":
            remove_tree(run.folder)  # what failed keeps its logs until the next run
        return Ended(
            outcome=outcome,
            record=ended.record,
            detail=ended.detail,
            explanation=ended.explanation,
            benchmark=ended.benchmark,
            left=run.left,
            started_at=run.started_at,
            duration_s=run.active_s,
        )

    @property
    def _log(self) -> Path:
        return self._home / "server.log"

    def _log_tail(self) -> str:
        try:
            return bounded_text(read_tail(self._log, _LOG_TAIL_BYTES).decode("utf-8", "replace"))
        except OSError:
            return ""


class _CellRun:
    """One execution of a cell: its folder, and its state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started_at = clock.stamp()
        self.active_s = 0.0
        self.stage = "init"
        self.left: dict[str, int] = {}
        self._has_begun = False

    def begin(self, request: str) -> None:
        """Write the cell's request. Raise OSError."""
        self._request.write_text(request)
        self._has_begun = True

    @property
    def is_removed(self) -> bool:
        """True if the folder has been emptied meanwhile, or is about to be: other servers' releases can write to it, too."""
        return self._has_begun and not os.path.lexists(self._request)

    @property
    def _request(self) -> Path:
        return self.folder / "request.json"


#: Signature of a stored cell whose program now has another launch line.
_NO_SECRET = "its launch line holds a secret, which is not stored: give the line with --program once more"


def _with_line(parameters: Mapping[str, object], line: str) -> dict[str, object] | None:
    """Return the parameters of a cell as they run: with ``line`` in place of its published form. None if the published line
    masks a secret and is not that of ``line``."""
    shown = parameters.get("program")
    if isinstance(shown, str) and line and masked_launch_line(line) == shown:
        return {**parameters, "program": line}
    return None if isinstance(shown, str) and MASK in shown and MASK not in line else dict(parameters)


def _round_seconds(value: object) -> float | None:
    """Return the seconds of a round that the server reports; None if they are not plausible."""
    return value if isinstance(value, float) and 0 < value < math.inf else None


def _counts(value: object) -> dict[str, int]:
    """Return the counts of left processes that the server reports, as far as they are plausible."""
    if not isinstance(value, dict):
        return {}
    return {str(name)[:16]: count for name, count in list(value.items())[:20] if isinstance(count, int)}


def _new_folder(parent: Path, prefix: str, owner: int | None) -> Path:
    """Make a new folder. Raise EnvironmentUnavailable."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=parent, prefix=prefix)
        if owner is not None:
            os.chown(folder, owner, owner)
    except OSError as error:
        what, hint = "cannot create a folder for the run", "check its permissions and the free disk space"
        raise obstacle_error(EnvironmentUnavailable, what, error, where=parent, hint=hint) from None
    return Path(folder)


def _death(stage: str, who: str, gone: Gone, log: str, folder: Path) -> Outcome:
    """Return the outcome of a cell whose server, which wrote to ``folder``, is gone."""
    signature = f"{who} {gone.how}"
    if gone.out_of_memory:
        return OutOfMemory(phase=stage, detail=signature)
    return _failure(stage, signature, without_folders(log), machine.of_death(signature, log, folder))


def _failure(stage: str, signature: str, detail: str, fault: str) -> Outcome:
    if fault:
        return MachineFault(stage, fault, signature, detail)
    return Failed(stage, signature, detail)
