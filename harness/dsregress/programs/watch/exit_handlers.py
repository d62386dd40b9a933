"""Runs what an interpreter runs when it exits: threads that still work, handlers of ``atexit``, child processes.

A rank ends without it, because a fork of the server has handlers that are not its own. So those that the program registers
are kept, and called in the interpreter's order when the program has ended by itself.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator

from dsregress.probe.border import faults
from vgpu.replacing import Patches


class ExitHandlers:
    """The handlers that a program has registered, in order."""

    def __init__(self) -> None:
        self._handlers: list[tuple[Callable[..., object], tuple[object, ...], dict[str, object]]] = []
        self._threads = frozenset(threading.enumerate())
        self._patches = Patches("handlers of the interpreter's exit are kept, and run when the program has ended")

    def begin(self) -> None:
        """Keep the handlers that are registered from now on."""
        self._threads = frozenset(threading.enumerate())
        self._patches.replace(atexit, "register", self._keep_handler)
        self._patches.replace(atexit, "unregister", self._drop_handler)

    def end(self) -> None:
        """Keep no more handlers."""
        self._patches.close()

    def run(self) -> None:
        """Exit as far as a rank can: it goes on afterwards. What does not end, hangs here as it would. An error of a handler
        is a warning: Python prints it, runs the other handlers, and ends as it would have without it."""
        for call in reversed(getattr(threading, "_threading_atexits", [])):
            with _errors_ignored():
                call()  # of executors, whose threads then end
        for thread in threading.enumerate():
            if not thread.daemon and thread not in self._threads:
                thread.join()
        while self._handlers:
            handler, args, kwargs = self._handlers.pop()
            with _errors_ignored():
                handler(*args, **kwargs)
        children = sys.modules.get("multiprocessing.util")
        if children is not None:
            with _errors_ignored():
                children._exit_function()

    def _keep_handler(self, handler: Callable[..., object], *args: object, **kwargs: object) -> Callable[..., object]:
        self._handlers.append((handler, args, kwargs))
        return handler

    def _drop_handler(self, handler: Callable[..., object]) -> None:
        self._handlers = [one for one in self._handlers if one[0] != handler]


@contextlib.contextmanager
def _errors_ignored() -> Iterator[None]:
    """Do with an error within the block what Python does with that of a handler, an exit with a code included."""
    try:
        yield
    except (Exception, SystemExit) as error:  # of any kind
        traceback.print_exc()
        warnings.warn(f"ignored in a handler of the exit: {faults.signature_of(error)}", RuntimeWarning, stacklevel=3)
