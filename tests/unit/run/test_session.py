"""How long workers stay open. The executor is the pretended one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from dsregress.cli.progress import QuietWatch
from dsregress.config.settings import Settings
from dsregress.launch.fake import FakeCluster, FakeExecutor
from dsregress.launch.workers import IDLE_SERVER_BYTES
from dsregress.model import Environment
from dsregress.run import session
from dsregress.run.session import Session
from tests.builders.synthetic import HARDWARE, result

CELLS = [result(version).cell for version in ("0.15.0", "0.16.4")]


def opened(
    executor: FakeExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_bytes: int = 24 << 30
) -> Session:
    hardware = msgspec.structs.replace(HARDWARE, memory_bytes=memory_bytes)
    target = SimpleNamespace(executor=executor, hardware=lambda: hardware)
    monkeypatch.setattr(session, "open_target", lambda *arguments: target)
    stacks = [cell.stack for cell in CELLS]
    made = Session(Settings(results=str(tmp_path), rounds=0), stacks, QuietWatch(), None)  # type: ignore[arg-type]
    made.add(Environment(stack=stack, lock_sha256="l") for stack in stacks)
    return made


def closed(executor: FakeExecutor) -> list[str]:
    return [line for line in executor.log if line.startswith("close")]


def test_workers_stay_open_from_measuring_to_explaining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = FakeExecutor()
    made = opened(executor, tmp_path, monkeypatch)
    made.keep_open_for(CELLS)
    made.measure(CELLS)
    made.explain(CELLS)
    assert closed(executor) == []
    made.end()
    assert len(closed(executor)) == 1 + len(CELLS)  # the executor, and each worker


def test_workers_that_do_not_all_fit_into_memory_are_closed_once_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = FakeExecutor()
    made = opened(executor, tmp_path, monkeypatch, memory_bytes=3 * IDLE_SERVER_BYTES)
    made.keep_open_for(CELLS)
    made.measure(CELLS)
    assert closed(executor)


def test_on_a_cluster_no_node_is_held_between_measuring_and_explaining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    made = opened(cluster, tmp_path, monkeypatch)
    made.keep_open_for(CELLS)
    made.measure(CELLS)
    assert closed(cluster)
