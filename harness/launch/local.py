"""Runs cells on this machine: one probe server per environment, device mode and framework.

The server (`harness.probe.server`) imports the framework once and forks each cell from there. It enforces the cell's own
timeout; here is the outer one, for a server that hangs itself. Each server is a session of its own, so that all it ever
started can be killed at once, and dies with this process even if that is killed by SIGKILL.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness.errors import EnvironmentUnavailable
from harness.launch import reading, staging
from harness.launch.contract import Ended, RunPlan, Waiting
from harness.launch.process import Conversation, Gone, Hung
from harness.model import Cell, Environment, Failed, Outcome, TimedOut
from harness.probe.surroundings import ENVIRONMENT
from harness.probe.wire import CellRequest

#: How much longer than the cell's own timeout we wait for its server to act on it.
_OUTER_GRACE_S = 30.0

_LOG_TAIL_BYTES = 1500


class LocalExecutor:
    """See `harness.launch.contract.Executor`.

    ``folder`` is where copies of the probe, logs and the runs' own files go; ``variables`` is the allow-listed
    environment of the measured processes. Raises EnvironmentUnavailable, UsageError when the probe cannot be staged.
    """

    def __init__(self, *, folder: str, scenarios: str, variables: Mapping[str, str], timeout_s: float) -> None:
        files = staging.probe_files(Path(scenarios))
        self._probe_sha256 = staging.measuring_sha256(files)
        self._probe = staging.stage(files, Path(folder) / "probe")
        self._folder = Path(folder)
        self._variables = dict(variables)
        self._timeout_s = timeout_s
        self._workers: list[LocalWorker] = []

    def probe_sha256(self) -> str:
        return self._probe_sha256

    def worker(self, environment: Environment, device: str, framework: str) -> LocalWorker:
        caches = self._folder / "caches" / f"{environment.stack.id}-{environment.lock_sha256[:12]}"
        variables = {
            **self._variables,
            **ENVIRONMENT,
            "PYTHONPATH": str(self._probe),
            "TORCH_EXTENSIONS_DIR": str(caches / "torch_extensions"),  # torch names them without the release's version
            "TRITON_CACHE_DIR": str(caches / "triton"),
        }
        command = [environment.python, "-m", "harness.probe.server", "--framework", framework, "--device", device]
        worker = LocalWorker(command, variables, self._folder / "runs", self._probe / "scenarios", self._timeout_s)
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self._workers:
            worker.interrupt()


class LocalWorker:
    """See `harness.launch.contract.Worker`."""

    def __init__(
        self, command: list[str], variables: Mapping[str, str], runs: Path, scenarios: Path, timeout_s: float
    ) -> None:
        self._command = command
        self._variables = variables
        self._runs = runs
        self._scenarios = scenarios
        self._timeout_s = timeout_s
        self._server: Conversation | None = None
        self._ready = False
        self._unusable: Outcome | None = None  #: why the framework cannot be imported
        self._home = Path()
        self._run: _Run | None = None

    def open(self) -> None:
        if self._server is not None or self._unusable is not None:
            return
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
            self._home = Path(tempfile.mkdtemp(dir=self._runs, prefix="server-"))
        except OSError as error:
            raise EnvironmentUnavailable(
                f"no folder for the run can be made: {error.strerror}",
                where=str(self._runs),
                hint="check its access and the space left",
            ) from None
        try:
            command = [*self._command, "--log", str(self._log)]
            self._server = Conversation(command, self._variables, str(self._home), str(self._log))
        except OSError as error:
            self._unusable = Failed(stage="import", signature=f"its interpreter does not start: {error.strerror}")

    def wait_until_open(self) -> None:
        self.open()
        if self._ready or self._server is None:
            return
        try:
            while not self._ready:
                event = self._server.receive(self._timeout_s + _OUTER_GRACE_S)
                if event.get("event") == "import_failed":
                    signature, detail = str(event.get("signature", "")), str(event.get("detail", ""))
                    self._unusable = Failed(stage="import", signature=signature, detail=detail)
                    self.close()
                    return
                self._ready = event.get("event") == "ready"
        except Gone as gone:
            self._unusable = Failed(stage="import", signature=f"the import {gone.how}", detail=self._log_tail())
            self.close()
        except Hung:
            self._unusable = TimedOut(stage="import", limit_s=self._timeout_s)
            self.close()

    def start(self, cell: Cell, plan: RunPlan) -> Waiting | Ended:
        self.wait_until_open()
        self._run = run = _Run(self._runs)
        if self._unusable is not None:
            return self._end(Ended(outcome=self._unusable))
        request = CellRequest(
            scenario=cell.scenario,
            scenario_file=str(self._scenarios / f"{cell.scenario}.py"),
            variant=cell.variant,
            device=cell.device,
            parameters=cell.parameters,
            framework=cell.framework,
            warmup_rounds=plan.warmup_rounds,
            rounds=plan.rounds,
            timeout_s=self._timeout_s,
        )
        (run.folder / "request.json").write_text(json.dumps(asdict(request)))
        return self._advance({"do": "start", "folder": str(run.folder)})

    def round(self) -> Waiting | Ended:
        return self._advance({"do": "round"})

    def stop(self) -> Ended:
        ended = self._advance({"do": "stop"})
        return ended if isinstance(ended, Ended) else self._lost("harness", "did not stop")

    def close(self) -> None:
        server, self._server, self._ready = self._server, None, False
        if server is not None:
            server.close()
            if self._unusable is None:
                shutil.rmtree(self._home, ignore_errors=True)

    def interrupt(self) -> None:
        """Kill all that runs, from any thread."""
        server = self._server
        if server is not None:
            server.interrupt()

    def _advance(self, command: dict[str, Any]) -> Waiting | Ended:
        """Send a command and follow the cell until it waits or has ended."""
        run, server = self._run, self._server
        assert run is not None and server is not None, "no cell has been started"
        begun = time.monotonic()
        try:
            server.send(command)
            while True:
                message = server.receive(self._timeout_s + _OUTER_GRACE_S)
                if message.get("event") == "beat":
                    run.stage = str(message.get("stage", run.stage))
                elif message.get("event") == "waiting":
                    run.active_s += time.monotonic() - begun
                    return Waiting()
                elif message.get("event") == "ended":
                    run.active_s += time.monotonic() - begun
                    return self._end(reading.ended(run.folder, self._timeout_s))
        except Gone as gone:
            run.active_s += time.monotonic() - begun
            return self._lost(run.stage, f"the probe's server {gone.how}")
        except Hung:
            run.active_s += time.monotonic() - begun
            server.kill()
            self.close()
            return self._end(Ended(outcome=TimedOut(stage=run.stage, limit_s=self._timeout_s)))

    def _lost(self, stage: str, signature: str) -> Ended:
        """The server is no more; the next cell gets a new one."""
        outcome = Failed(stage=stage, signature=signature, detail=self._log_tail())
        self.close()
        return self._end(Ended(outcome=outcome))

    def _end(self, ended: Ended) -> Ended:
        run, self._run = self._run, None
        assert run is not None
        if ended.record is not None and ended.record.outcome == "passed":
            shutil.rmtree(run.folder, ignore_errors=True)  # what failed keeps its logs until the next run
        return Ended(
            outcome=ended.outcome,
            record=ended.record,
            detail=ended.detail,
            benchmark=ended.benchmark,
            started_at=run.started_at,
            duration_s=run.active_s,
        )

    @property
    def _log(self) -> Path:
        return self._home / "server.log"

    def _log_tail(self) -> str:
        try:
            return self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace")
        except OSError:
            return ""


class _Run:
    """One execution of a cell: its folder, and what has been seen of it."""

    def __init__(self, runs: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=runs, prefix="run-"))
        self.started_at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.active_s = 0.0
        self.stage = "init"
