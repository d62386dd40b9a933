"""Cells whose ranks span nodes of a cluster, with a Ray that is made up: what ends, what is interrupted, what is lost."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from dsregress.config.ray import Ray
from dsregress.errors import EnvironmentUnavailable
from dsregress.launch.contract import Ended, Lost, RunPlan, Waiting
from dsregress.launch.ray import executor
from dsregress.launch.ray.executor import RayExecutor, RayWorker
from dsregress.launch.ray.placing import Needs
from dsregress.model import Failed
from tests.builders.cells import cell
from tests.builders.tiny_packages import locked

PENDING = object()
OPENED = types.SimpleNamespace(hardware=None, environment=None)
NEEDED = Needs(nodes=2, ranks=1, resources={"CPU": 1.0})


class RayError(Exception):
    pass


@dataclass(eq=False)
class Reply:
    value: Any = PENDING


@dataclass
class Method:
    call: Callable[..., Reply]

    def remote(self, *arguments: Any) -> Reply:
        return self.call(*arguments)


@dataclass(eq=False)
class Actor:
    """A node's worker. ``ends``: whether its cell ends when it is interrupted."""

    state: Any = field(default_factory=Waiting)
    ends: bool = True
    is_interrupted: bool = False
    reply: Reply = field(default_factory=Reply)

    def __post_init__(self) -> None:
        self.reply.value = self.state
        self.open, self.stop, self.close = (Method(lambda *_: Reply(OPENED)) for _ in range(3))
        self.start = Method(lambda *_: Reply(Waiting()))
        self.rendezvous = Method(lambda: Reply("tcp://10.0.0.1:5000"))
        self.round = Method(lambda: self.reply)
        self.interrupt = Method(self._interrupted)

    def _interrupted(self) -> Reply:
        self.is_interrupted = True
        if self.ends:
            self.reply.value = Ended(outcome=Failed("step", "interrupted"))
        return Reply("done")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Stands in for Ray. The time limits of what was waited for in vain; without a limit that is for ever."""
    in_vain: list[float | None] = []

    def wait(
        replies: list[Reply], num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[Reply], list[Reply]]:
        ready = [reply for reply in replies if reply.value is not PENDING][:num_returns]
        if len(ready) < num_returns:
            in_vain.append(timeout)
            assert timeout is not None, "would wait for ever"
        return ready, [reply for reply in replies if reply not in ready]

    def get(reply: Reply) -> Any:
        assert reply.value is not PENDING, "would wait for ever"
        return reply.value

    ray, exceptions = types.ModuleType("ray"), types.ModuleType("ray.exceptions")
    vars(ray).update(wait=wait, get=get, exceptions=exceptions, is_initialized=lambda: True)
    vars(exceptions).update(RayError=RayError, RayTaskError=type("RayTaskError", (RayError,), {}))
    for name, module in {"ray": ray, "ray.exceptions": exceptions}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(executor, "_in", lambda group, index: None)
    return in_vain


class OnTwoNodes:
    """What a worker requests of the executor."""

    def __init__(self, *actors: Actor) -> None:
        self._actors = list(actors)
        self.ended: list[Actor] = []

    def needs(self, cell: Any) -> Needs:
        return NEEDED

    def could_run(self, needed: Needs) -> bool:
        return True

    def give_up_after(self, since: float, why: str) -> None: ...

    def group(self, bundles: Any) -> object:
        return object()

    def release(self, group: Any) -> None: ...

    def actor(self, *server: Any, **options: Any) -> Actor:
        return self._actors.pop(0)

    def end(self, actor: Actor) -> None:
        self.ended.append(actor)


def spanning(*actors: Actor) -> RayWorker:
    worker = RayWorker(OnTwoNodes(*actors), locked("1.0.0"), "cpu", "f")  # type: ignore[arg-type]
    assert worker.start(cell("1.0.0"), RunPlan(warmup_rounds=0, rounds=1)) == Waiting()
    return worker


def test_a_part_that_waits_for_one_that_has_ended_is_interrupted_and_the_cell_is_over(
    waits: list[float | None],
) -> None:
    failing, waiting = Actor(Ended(outcome=Failed("step", "cause"))), Actor(PENDING)
    over = spanning(failing, waiting).round()
    assert isinstance(over, Ended)
    assert waiting.is_interrupted
    assert waits == [executor._OTHERS_END_S]


def test_a_part_that_does_not_end_by_being_interrupted_is_lost_instead_of_waited_for(waits: list[float | None]) -> None:
    failing, deaf = Actor(Ended(outcome=Failed("step", "cause"))), Actor(PENDING, ends=False)
    with pytest.raises(Lost, match=r"^a part of the cell did not end within 30 s of being interrupted$"):
        spanning(failing, deaf).round()
    assert waits == [executor._OTHERS_END_S, executor._INTERRUPTED_S]


@pytest.mark.parametrize("error", [RayError("gone"), ConnectionError("gone"), EnvironmentUnavailable("gone")])
def test_what_is_gone_already_is_ended_without_an_error(error: Exception) -> None:
    actor = Actor()
    worker = spanning(actor, Actor())
    actor.close = Method(lambda: raising(error))
    worker.close()


def test_an_error_of_ours_is_not_taken_for_what_is_gone_already() -> None:
    actor = Actor()
    worker = spanning(actor, Actor())
    actor.close = Method(lambda: raising(TypeError("an argument of ours")))
    with pytest.raises(TypeError, match="an argument of ours"):
        worker.close()


def raising(error: Exception) -> Reply:
    raise error


def test_a_worker_in_a_machine_that_is_held_leaves_the_executors_own_as_they_are() -> None:
    cluster = RayExecutor(settings=Ray(), files={}, side=None, timeout_s=1.0)  # type: ignore[arg-type]
    lock = locked("1.0.0")
    cluster._locked[lock.sha256] = lock
    environment = types.SimpleNamespace(lock_sha256=lock.sha256)
    group = object()
    held = cluster.worker_inside(group, NEEDED, environment, "cpu", "f")  # type: ignore[arg-type]
    own = cluster.worker(environment, "cpu", "f")  # type: ignore[arg-type]
    assert (held._is_held, own._is_held) == (True, False)


def test_what_is_open_is_closed_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = RayExecutor(settings=Ray(), files={}, side=None, timeout_s=1.0)  # type: ignore[arg-type]
    closed: list[tuple[str, Any]] = []
    monkeypatch.setattr(cluster, "end", lambda actor: closed.append(("actor", actor)))
    monkeypatch.setattr(cluster, "release", lambda group: closed.append(("group", group)))
    cluster._actors.add("one")
    cluster._groups.add("two")
    cluster.close()
    assert closed == [("actor", "one"), ("group", "two")]
