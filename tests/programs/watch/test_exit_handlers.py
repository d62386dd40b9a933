"""What an interpreter runs when it exits is run when a program has ended, in its order."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("torch")

from dsregress.programs.watch.exit_handlers import ExitHandlers


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


def test_an_error_is_a_warning_and_does_not_keep_other_handlers_from_running(
    handlers: ExitHandlers, capfd: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    atexit.register(ran.append, "cleaned")

    @atexit.register
    def fail() -> None:
        raise KeyError("gone")

    with pytest.warns(RuntimeWarning, match="ignored in a handler of the exit: KeyError: 'gone'"):
        handlers.run()
    assert ran == ["cleaned"]
    assert "in fail" in capfd.readouterr().err


def test_a_handler_that_exits_with_a_code_does_not_change_the_code_of_the_program(handlers: ExitHandlers) -> None:
    atexit.register(sys.exit, 3)
    with pytest.warns(RuntimeWarning, match="SystemExit: 3"):
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
