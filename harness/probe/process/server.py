"""The probe's server: imports the framework once, then runs cells for the host, each in a fork of itself.

Started by the host as ``python -m harness.probe.process.server``. Commands come in on stdin and events go out on what was
stdout, one JSON object a line; the framework's own prints go to the log. See ``docs/architecture.md`` for the dialogue.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import select
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from harness.probe.border import faults
from harness.probe.border.wire import CellRequest, RunRecord
from harness.probe.process import reaping
from harness.probe.process.channel import Channel, Closed, Message, pair


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="harness.probe.process.server", description=__doc__)
    parser.add_argument("--framework", required=True, help="dotted name of the adapter module")
    parser.add_argument("--device", required=True, choices=("sim", "cpu", "cuda"))
    parser.add_argument("--log", required=True, type=Path, help="where the framework's prints go")
    options = parser.parse_args(arguments)
    reaping.die_with_parent(os.getppid())
    host = _Host(options.log)
    try:
        import_s = _preload(options.framework, options.device)
    except BaseException as error:
        host.tell(
            {"event": "import_failed", "signature": faults.signature_of(error), "detail": faults.detail_of(error)}
        )
        return 1
    host.tell({"event": "ready", "import_s": import_s})
    _serve(host, import_s)
    return 0


def _preload(framework: str, device: str) -> float:
    start = time.perf_counter()
    gc.disable()  # it would walk a million objects that stay, again and again: a sixth of the time
    import pytest_benchmark.plugin  # noqa: F401  (paid here once, not in every cell)

    importlib.import_module("harness.probe.process.cell")
    importlib.import_module(framework).preload(device)
    gc.collect()
    gc.freeze()  # what is imported stays: collections in the forks need not walk it, nor unshare its pages
    gc.enable()
    return time.perf_counter() - start


class _Host:
    """The host's end: commands from stdin, events to the stdout that was."""

    def __init__(self, log: Path) -> None:
        self._events = os.fdopen(os.dup(1), "w", buffering=1)
        os.set_inheritable(self._events.fileno(), False)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        self._commands = os.dup(0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        self._read = b""

    def fileno(self) -> int:
        return self._commands

    @property
    def pending(self) -> bool:
        """Whether a whole command has been read already."""
        return b"\n" in self._read

    def tell(self, event: Message) -> None:
        try:
            self._events.write(json.dumps(event) + "\n")
        except OSError:
            sys.exit(1)  # nobody listens any more

    def command(self) -> Message | None:
        """The next command; None at the end of input."""
        while b"\n" not in self._read:
            more = os.read(self._commands, 65536)
            if not more:
                return None
            self._read += more
        line, self._read = self._read.split(b"\n", 1)
        command: Message = json.loads(line)
        return command

    def close(self) -> None:
        """In a fork: the dialogue is not its own."""
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
    """Fork the cell's process and carry messages until it has ended. False when the host is gone."""
    ours, theirs = pair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            reaping.die_with_parent(parent)
            ours.close()
            host.close()
            code = _cell_process(folder, theirs)
        finally:
            os._exit(code)
    theirs.close()
    stage, alive, imported = "init", True, []
    while True:
        if _cell_speaks(host, ours):
            try:
                message = ours.receive()
            except Closed:
                break
            assert message is not None
            stage = message.get("stage", stage)
            if "imported" in message:
                imported = message["imported"]
            else:
                host.tell(message)
        else:
            command = host.command()
            if command is None or command["do"] == "stop":
                alive = command is not None
                reaping.kill_group(pid)
                break
            ours.send(command)
    reaping.kill_group(pid)
    _, status = os.waitpid(pid, 0)
    ours.close()
    _complete(folder, import_s, stage, status)
    host.tell({"event": "ended"})
    _import_all(imported)
    return alive


def _cell_speaks(host: _Host, cell: Channel) -> bool:
    """Waits for either; whether it is the cell. What was read together with the message before is in a buffer already,
    where select does not see it."""
    if cell.pending or host.pending:
        return cell.pending
    ready = select.select([cell.fileno(), host.fileno()], [], [])[0]
    return cell.fileno() in ready


def _import_all(modules: list[str]) -> None:
    """Import here what a rank imported lazily, so that the forks to come need not."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:  # importable only in a rank: then each rank goes on importing it
            pass
    if modules:
        gc.collect()
        gc.freeze()


def _complete(folder: Path, import_s: float, stage: str, status: int) -> None:
    """Adds what only the server knows to the record, or writes one for a cell that could not."""
    path = folder / "record.json"
    if path.exists():
        record = json.loads(path.read_text())
    else:
        how = (
            faults.signal_signature(os.WTERMSIG(status))
            if os.WIFSIGNALED(status)
            else f"the cell's process ended with exit code {os.WEXITSTATUS(status)}"
        )
        log = faults.tail(str(folder / "cell.log")) or ""
        record = asdict(RunRecord(outcome="failed", stage=stage, signature=how, log_tail=log))
    record["import_s"] = import_s
    unfinished = folder / "record.unfinished"
    unfinished.write_text(json.dumps(record))
    unfinished.rename(path)


def _cell_process(folder: Path, server: Channel) -> int:
    """In the fork: one pytest session with one item, so that pytest-benchmark is the timer."""
    handle = os.open(folder / "cell.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.chdir(folder)
    request = CellRequest(**json.loads((folder / "request.json").read_text()))
    options = [
        f"{Path(__file__).with_name('item.py')}",
        "-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler",
        "-c", os.devnull, f"--rootdir={folder}", "-q", "-s", "--noconftest",
        "-o", "python_files=item.py", f"--benchmark-json={folder / 'benchmark.json'}",
    ]  # fmt: skip
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return int(pytest.main(options, plugins=[_Session(request, folder, server)]))


class _Session:
    """The pytest plugin of a session that serves the host: hands the item its request and its gate."""

    def __init__(self, request: CellRequest, folder: Path, server: Channel) -> None:
        self.request, self.folder, self._server = request, folder, server

    def pytest_configure(self, config: object) -> None:
        config.dsregress = self  # type: ignore[attr-defined]

    # pytest-benchmark asks git and the processor for their names; the host knows both, and the asking costs a second.
    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_generate_machine_info(self) -> dict[str, str]:
        return {"node": "unnamed", "python_version": sys.version.split()[0]}

    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_generate_commit_info(self) -> dict[str, str]:
        return {"id": "unknown"}

    def pass_through(self) -> None:
        self._server.send({"event": "waiting"})
        command = self._server.receive()
        if command is None or command["do"] != "round":
            raise RuntimeError(f"expected a round, got {command}")

    def beat(self, stage: str) -> None:
        self._server.send({"event": "beat", "stage": stage})

    def learned(self, modules: list[str]) -> None:
        self._server.send({"event": "beat", "imported": modules})


if __name__ == "__main__":
    sys.exit(main())
