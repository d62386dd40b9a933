"""Keeps what the first attempt at a program came to, next to its environments, so that the same command goes on from there
instead of failing its way to it once more."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from dsregress.config.settings import Settings
from dsregress.probe import launch_line, program
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.run.program_remedies import Attempt
from dsregress.system.files import write_atomically

_FOLDER = "attempts"


class KeptAttempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attempt, and the lines that say in what it differs from the one that began it."""

    attempt: Attempt
    lines: tuple[str, ...]


class AttemptNotes:
    """The lines that are said of an attempt while it goes on, and where it has come to, which is kept."""

    def __init__(self, began: Attempt, settings: Settings, say: Callable[[str], None]) -> None:
        line = launch_line.parse(began.program.line)
        files = program.sources_sha256(line, Path(began.program.folder))
        begun = msgspec.json.encode(began, order="deterministic")
        name = hashlib.sha256(files.encode() + begun).hexdigest()[:16]
        self._began = began
        self._file = Path(settings.environments, _FOLDER, f"{name}.json")
        self._say = say
        self._lines: list[str] = []

    def note(self, line: str) -> None:
        """Say a line, which is said again when the attempt goes on from there."""
        self._lines.append(line)
        self._say(line)

    def keep(self, attempt: Attempt) -> None:
        """Keep where it has come to, for the next command. Without room for it that finds it out again."""
        if attempt == self._began:
            return
        with contextlib.suppress(OSError):
            kept = KeptAttempt(attempt=attempt, lines=tuple(self._lines))
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(
                self._file, msgspec.json.encode(kept), durable=False, private=True
            )  # a line may hold a secret

    def kept(self) -> KeptAttempt | None:
        """Return where the same attempt came to before; None if that is not kept, or all is to be run anew."""
        if self._began.choice.fresh:
            return None
        with contextlib.suppress(OSError, ValueError):  # none, or another release's
            return msgspec.json.decode(read_regular(self._file, MOST_FILE_BYTES), type=KeptAttempt)
        return None
