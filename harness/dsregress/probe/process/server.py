"""The probe's server: imports the framework once, then runs cells for the host, each in a forked process.

The host starts it as ``python -m dsregress.probe.process.server``. It reads commands from stdin and writes events to the
original stdout, one JSON object a line; what the framework prints goes to the log. ``docs/architecture.md`` describes the
dialogue.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dsregress.probe.border import faults, logs, machine, processes
from dsregress.probe.border.encoding import encode
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.border.wire import CellRequest, RunRecord
from dsregress.probe.process import canary, jit, scheduling
from dsregress.probe.process.adapter_loading import load_adapter
from dsregress.probe.process.channel import Channel, Closed, Message, pair
from dsregress.probe.process.lazy_imports import import_all
from vgpu import process_control
from vgpu.whole_files import write_whole


def serve_cells(arguments: list[str] | None = None) -> int:
    """Run the server until the host ends it. Return the exit code, 1 if the framework cannot be imported."""
    parser = argparse.ArgumentParser(prog="dsregress.probe.process.server", description=__doc__)
    parser.add_argument("--framework", required=True, help="id of the adapter")
    parser.add_argument("--device", required=True, choices=("sim", "cpu", "cuda"))
    parser.add_argument("--log", required=True, type=Path, help="where the framework's prints go")
    options = parser.parse_args(arguments)
    process_control.die_with_parent(os.getppid())
    processes.become_subreaper()
    if options.device != "cuda":  # the thread that feeds a GPU is the job's own to schedule
        scheduling.finish_turns()
    host = _Host(options.log)
    try:
        import_s = _preload_framework(options.framework, options.device)
    except BaseException as error:  # whatever an import raises is its result, an exit included
        host.send(
            {
                "event": "import_failed",
                "stage": faults.stage_of(error) or "import",
                "signature": faults.signature_of(error),
                "detail": faults.detail_of(error),
                "machine_fault": machine.of_error(error),
            }
        )
        return 1
    host.send({"event": "ready", "import_s": import_s})
    _serve(host, import_s)
    return 0


def _preload_framework(framework: str, device: str) -> float:
    start = time.perf_counter()
    gc.disable()  # it would walk a million lasting objects repeatedly: a sixth of the time
    import pytest_benchmark.plugin  # noqa: F401  (imported once here, not in every cell)

    importlib.import_module("dsregress.probe.process.cell")
    load_adapter(framework).preload(device)
    canary.installed_digest()
    # What is imported stays: collections in the forks need not walk it, nor unshare its pages. Its ten thousand objects
    # of garbage stay, too: to collect them takes a tenth of an import.
    gc.freeze()
    gc.enable()
    return time.perf_counter() - start


class _Host:
    """Commands from the host on stdin, events to the host on the original stdout. Once constructed, file descriptors 1
    and 2 are the log, and 0 is empty: nothing that a framework prints or reads can reach the dialogue."""

    def __init__(self, log: Path) -> None:
        self._events = os.fdopen(os.dup(1), "w", buffering=1)
        os.set_inheritable(self._events.fileno(), False)
        handle = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        self._commands = os.dup(0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        self._read = b""

    def fileno(self) -> int:
        return self._commands

    @property
    def pending(self) -> bool:
        """Return True if a whole command is in the buffer, which ``select`` does not see."""
        return b"\n" in self._read

    def send(self, event: Message) -> None:
        """Send an event. Exit if the host is gone."""
        try:
            self._events.write(encode(event) + "\n")
        except OSError:
            sys.exit(1)  # the host is gone

    def command(self) -> Message | None:
        """Return the next command; None at the end of input, when the host is gone."""
        while b"\n" not in self._read:
            more = os.read(self._commands, 65536)
            if not more:
                return None
            self._read += more
        line, self._read = self._read.split(b"\n", 1)
        command: Message = json.loads(line)
        return command

    def close(self) -> None:
        """Close the dialogue in a fork, which takes no part in it."""
        os.close(self._commands)
        os.close(self._events.fileno())


def _serve(host: _Host, import_s: float) -> None:
    while True:
        command = host.command()
        if command is None:
            return
        if command["do"] == "start" and not _run_cell(host, Path(command["folder"]), import_s):
            return


def _run_cell(host: _Host, folder: Path, import_s: float) -> bool:
    """Fork the cell's process and pass messages on until it has ended. Return False if the host is gone."""
    ours, theirs = pair()
    parent = os.getpid()
    jit.remove_abandoned_locks()
    before = {process.identity for process in processes.descendants()}  # the framework's, from its import
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            process_control.die_with_parent(parent)
            ours.close()
            host.close()
            os.register_at_fork(after_in_child=theirs.close)  # else the cell ends only when the last fork of a rank has
            code = _cell_process(folder, theirs)
        finally:
            os._exit(code)
    theirs.close()
    stage, alive, imported = "init", True, []
    while True:
        if _cell_has_message(host, ours, folder):
            try:
                message = ours.receive()
            except Closed:
                break
            assert message is not None
            stage = message.get("stage", stage)
            if "imported" in message:
                imported = message["imported"]
            else:
                host.send(message)
        else:
            command = host.command()
            if command is None:
                alive = False
                processes.kill_group(pid)
                break
            ours.send(command)
    left, status = _end_cell(pid, before, stopped=not alive)
    ours.close()
    _complete_record(folder, import_s, stage, status)
    host.send({"event": "ended", "left": left})
    import_all(imported)
    return alive


def _end_cell(pid: int, before: set[tuple[int, int]], *, stopped: bool) -> tuple[dict[str, int], int]:
    """End all processes that the cell has started and left, so that they disturb no later cell. Return their names with
    counts, and the wait status of the cell's process. ``before`` has the processes that ran before it."""
    try:
        os.kill(pid, signal.SIGKILL)  # it has closed its channel: it exits, or hangs while it does
    except ProcessLookupError:
        pass
    _, status = os.waitpid(pid, 0)
    command, session = processes.command_of(os.getpid()), os.getsid(0)

    left = processes.end_descendants(
        spared=before,
        grace_s=0.0 if stopped else processes.GRACE_S,
        silently=lambda process: os.WIFSIGNALED(status) and processes.is_fork(process, session, command),  # its ranks
    )
    processes.kill_group(pid)  # all that can be done without /proc
    return left, status


def _cell_has_message(host: _Host, cell: Channel, folder: Path) -> bool:
    """Wait for a message of either; return True if the cell has one. A message that came together with the one before is
    in a buffer, which ``select`` does not see. Keep the logs short meanwhile."""
    if cell.pending or host.pending:
        return cell.pending
    while not (ready := select.select([cell.fileno(), host.fileno()], [], [], logs.LOOK_S)[0]):
        logs.shorten(1)
        logs.shorten_all(folder)
    return cell.fileno() in ready


def _complete_record(folder: Path, import_s: float, stage: str, status: int) -> None:
    """Add the import time to the cell's record, or write a record for a cell that died without one."""
    path = folder / "record.json"
    record = _read_record(path)
    if record is None:
        log = faults.tail(str(folder / "cell.log")) or ""
        signature = (
            faults.signal_signature(os.WTERMSIG(status), faults.last_words(str(folder / "cell.log")))
            if os.WIFSIGNALED(status)
            else f"the cell's process ended with exit code {os.WEXITSTATUS(status)}"
        )
        fault = machine.of_death(signature, log, folder)
        outcome = "machine_fault" if fault else "failed"
        record = asdict(RunRecord(outcome=outcome, stage=stage, signature=signature, machine_fault=fault, log_tail=log))
    record["import_s"] = import_s
    write_whole(path, encode(record))


def _read_record(path: Path) -> Message | None:
    """Return the record that the cell left; None if it is not one. The measured code could write there as well."""
    try:
        record = json.loads(read_regular(path, MOST_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _cell_process(folder: Path, server: Channel) -> int:
    """Run the cell in the forked process. With timed rounds it is one pytest session with one item, so that
    pytest-benchmark is the timer; starting that takes a quarter of the time of a tiny cell, which needs no timer."""
    handle = logs.open_log(folder / "cell.log")
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.chdir(folder)
    request = CellRequest(**json.loads((folder / "request.json").read_text()))
    session: Any = _CellPlugin(request, folder, server)  # it is the cell's gate as well
    if not request.rounds:
        from dsregress.probe.process.cell import execute_cell  # which imports the framework's torch

        with _filters_of_pytest():
            execute_cell(request, folder, None, session)
        return 0
    options = [
        f"{Path(__file__).with_name('item.py')}",
        "-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler",
        "-c", os.devnull, f"--rootdir={folder}", "-q", "-s", "--noconftest",
        "-o", "python_files=item.py", f"--benchmark-json={folder / 'benchmark.json'}",
    ]  # fmt: skip
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return int(pytest.main(options, plugins=[session]))


@contextlib.contextmanager
def _filters_of_pytest() -> Iterator[None]:
    """Show warnings within the block as often as in a pytest session, so that a cell counts the same with and without
    timed rounds."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, PendingDeprecationWarning):
            warnings.filterwarnings("always", category=category)
        yield


class _CellPlugin:
    """The pytest plugin of a cell's session: hands the item its request, and is its gate
    (`dsregress.probe.process.cell`)."""

    def __init__(self, request: CellRequest, folder: Path, server: Channel) -> None:
        self.request, self.folder, self._server = request, folder, server

    def pytest_configure(self, config: object) -> None:
        config.dsregress = self  # type: ignore[attr-defined]

    # pytest-benchmark runs git and queries the processor, which takes a second; the host records both itself.
    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_generate_machine_info(self) -> dict[str, str]:
        return {"node": "unnamed", "python_version": sys.version.split()[0]}

    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_generate_commit_info(self) -> dict[str, str]:
        return {"id": "unknown"}

    def pytest_benchmark_update_json(self) -> None:
        """Remove the file that pytest-benchmark opens next: the measured code may have put a pipe there, which blocks
        forever."""
        with contextlib.suppress(OSError):
            os.unlink(self.folder / "benchmark.json")

    def pass_through(self, last_s: float | None) -> None:
        """Wait until the host starts the next round. Raise EnoughRounds if it stops the cell."""
        self._server.send({"event": "waiting", "round_s": last_s})
        command = self._server.receive()
        if command is not None and command["do"] == "stop":
            from dsregress.probe.process.ranks import EnoughRounds

            raise EnoughRounds
        if command is None or command["do"] != "round":
            raise RuntimeError(f"expected a round, got {command}")

    def beat(self, stage: str) -> None:
        """Report that the stage began."""
        self._server.send({"event": "beat", "stage": stage})

    def imported(self, modules: list[str]) -> None:
        """Report modules that a rank imported itself."""
        self._server.send({"event": "beat", "imported": modules})


if __name__ == "__main__":
    # Under its own name, because a measured program is called ``__main__``.
    sys.exit(importlib.import_module("dsregress.probe.process.server").serve_cells())
