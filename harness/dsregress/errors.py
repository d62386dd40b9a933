"""The one tree of errors: each class has an exit code, and each message says what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_OK = 0
EXIT_REGRESSION = 1
EXIT_USAGE = 2
EXIT_HARNESS = 3
EXIT_NOTHING_MEASURED = 4


class HarnessError(Exception):
    """An error as one line: the fault, its place, and the next step.

    Raised anywhere on the host side, caught once, in ``dsregress.cli``.
    """

    exit_code = EXIT_HARNESS

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text


class UsageError(HarnessError):
    """The call or the configuration is wrong: nothing was started."""

    exit_code = EXIT_USAGE


class NoReleaseFits(UsageError):
    """No release of a package goes with the others that were chosen."""


def no_such(what: str, name: str, known: Iterable[str], where: str = "", *, most: int | None = None) -> UsageError:
    """Return the error for a name, or a glob over names, that matches none of the ``known``. It suggests similar ones; if
    none is similar, it lists all of them, or the first ``most``."""
    names = list(known)
    shown = names[:most]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    there_are = f"there are: {', '.join(shown) or 'none'}{more}"
    return UsageError(f"no such {what}: {name}", where=where, hint=meant(name, names) or there_are)


def meant(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean a, b?``, with the similar names; empty if none is."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else ""


class Offline(UsageError):
    """The call needs a package index, and DSREGRESS_OFFLINE forbids one."""


class EnvironmentUnavailable(HarnessError):
    """The machine lacks what the harness itself needs (an installer, an index, a daemon, a writable folder)."""


class ResultsError(HarnessError):
    """The results folder cannot be read or written."""


class NothingMeasured(HarnessError):
    """The run ended without one measurement: never to be mistaken for a pass."""

    exit_code = EXIT_NOTHING_MEASURED
