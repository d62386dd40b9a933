"""What an interpreter runs when it exits is run when a program has ended, in its order."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("torch")

from dsregress.programs.watch.exit_handlers import ExitHandlers
from dsregress.programs.world.program_errors import ProgramError


@pytest.fixture
def handlers() -> Iterator[ExitHandlers]:
    made = ExitHandlers()
    made.begin()
    yield made
    made.end()


def test_threads_come_first_and_then_the_handlers_the_last_one_first(handlers: ExitHandlers) -> None:
    ran: list[str] = []
    for name in ("first", "second"):
        atexit.register(ran.append, name)
    atexit.unregister(print)
    threading.Thread(target=ran.append, args=("thread",)).start()
    handlers.run()
    handlers.run()  # once each
    assert ran == ["thread", "second", "first"]


def test_an_error_does_not_keep_other_handlers_from_running(handlers: ExitHandlers) -> None:
    ran: list[str] = []
    atexit.register(ran.append, "cleaned")

    @atexit.register
    def fail() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        handlers.run()
    assert ran == ["cleaned"]


@pytest.mark.parametrize(("code", "fails"), [(0, False), (None, False), (3, True)])
def test_a_handler_that_exits_fails_only_with_a_code(handlers: ExitHandlers, code: int | None, fails: bool) -> None:
    def leave() -> None:
        raise SystemExit(code)

    atexit.register(leave)
    with pytest.raises(ProgramError, match="exits with 3") if fails else contextlib.nullcontext():
        handlers.run()


def test_what_is_registered_afterwards_is_the_interpreters_own(handlers: ExitHandlers) -> None:
    handlers.end()
    assert atexit.register.__module__ == "atexit"


def test_work_that_an_executor_still_has_is_done(monkeypatch: pytest.MonkeyPatch, handlers: ExitHandlers) -> None:
    monkeypatch.setattr("concurrent.futures.thread._shutdown", False)
    done: list[int] = []
    pool = ThreadPoolExecutor(1)
    pool.submit(done.append, 1)
    handlers.run()
    assert done == [1]
