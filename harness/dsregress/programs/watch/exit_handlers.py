"""Runs what an interpreter runs when it exits: threads that still work, handlers of ``atexit``, child processes.

A rank ends without it, because a fork of the server has handlers that are not its own. So those that the program registers
are kept, and called in the interpreter's order when the program has ended by itself.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable

from dsregress.programs.world.program_errors import ProgramError
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
        """Exit as far as a rank can: it goes on afterwards. Raise the first error of a handler, once all have run; what does
        not end, hangs here as it would."""
        for call in reversed(getattr(threading, "_threading_atexits", [])):
            call()  # of executors, whose threads then end
        for thread in threading.enumerate():
            if not thread.daemon and thread not in self._threads:
                thread.join()
        errors: list[BaseException] = []
        while self._handlers:
            handler, args, kwargs = self._handlers.pop()
            try:
                handler(*args, **kwargs)
            except SystemExit as error:
                if error.code not in (None, 0):
                    errors.append(ProgramError(f"a handler of its exit exits with {error.code!r}"))
            except Exception as error:  # of any kind: raised again below
                errors.append(error)
        children = sys.modules.get("multiprocessing.util")
        if children is not None:
            children._exit_function()
        if errors:
            raise errors[0]

    def _keep_handler(self, handler: Callable[..., object], *args: object, **kwargs: object) -> Callable[..., object]:
        self._handlers.append((handler, args, kwargs))
        return handler

    def _drop_handler(self, handler: Callable[..., object]) -> None:
        self._handlers = [one for one in self._handlers if one[0] != handler]
