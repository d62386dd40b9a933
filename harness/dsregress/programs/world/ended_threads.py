"""Ends a program that waits for a thread of its own which an error has ended.

Python prints the error and goes on, and what waits for the thread's next item waits for ever: in ranks, and in the workers
of data loaders. So the error is raised where the main thread waits, once it has been in one wait for a few seconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator

from vgpu.replacing import Patches

#: A signal that no program uses, next to that of `dsregress.probe.process.whereabouts`; macOS has none.
_SIGNAL: int | None = getattr(signal, "SIGRTMAX", 1) - 1 or None

#: Looks at the main thread, and the seconds between them.
_LOOKS, _BETWEEN_LOOKS_S = 5, 1.0

_ended: list[BaseException] = []  # at most one, of this process


@contextlib.contextmanager
def ended_threads() -> Iterator[None]:
    """Watch the threads of this process, and of those that are forked from it, within the block, which begins in the main
    thread."""
    if _SIGNAL is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(_SIGNAL, _raise_error)
    original = threading.excepthook

    def note_error(args: threading.ExceptHookArgs) -> None:
        original(args)
        if args.exc_value is not None and isinstance(args.exc_value, Exception) and not _ended:
            _ended.append(args.exc_value)
            threading.Thread(target=_interrupt_if_waiting, daemon=True).start()

    try:
        with Patches("errors that end a program's threads are seen") as patches:
            patches.replace(threading, "excepthook", note_error)
            yield
    finally:
        _ended.clear()
        signal.signal(_SIGNAL, before)


def _interrupt_if_waiting() -> None:
    """Interrupt the main thread if it is in one wait without a limit at every look; otherwise forget the error."""
    main = threading.main_thread().ident or 0
    time.sleep(_BETWEEN_LOOKS_S)
    first = sys._current_frames().get(main)
    for _ in range(_LOOKS):
        if first is None or sys._current_frames().get(main) is not first or not _is_endless(first):
            _ended.clear()
            return
        time.sleep(_BETWEEN_LOOKS_S)
    if _SIGNAL is not None and _ended:
        os.kill(os.getpid(), _SIGNAL)  # Python's handler runs in the main thread, which stops waiting for it


def _is_endless(frame: types.FrameType) -> bool:
    """Return True for Python's wait for another thread, without a limit: ``queue.get()`` and ``event.wait()`` end in it."""
    code = frame.f_code
    return code.co_filename.endswith("/threading.py") and frame.f_locals.get("timeout") is None


def _raise_error(*_: object) -> None:
    if _ended:
        raise _ended.pop()
