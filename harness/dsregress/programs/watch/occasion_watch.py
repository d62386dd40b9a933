"""Calls of a program that are a phase while they last: it loads, generates, evaluates, offloads or saves.

`CALLS` lists the library calls by which programs do so. Everything within such a call is part of it, so the outermost
counts: a checkpoint is one *save* with all its files. If a library first gathers a whole model and then generates, the
call that does both is the phase.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import io
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from vgpu.json_tables import decoded_entries, decoded_lists, decoded_text, decoded_texts, table_beside
from vgpu.replacing import Patches


@dataclasses.dataclass(frozen=True, kw_only=True)
class WatchedCall:
    """A library's call that is a phase while it lasts. What a program never imports is ignored."""

    phase: str
    module: str
    name: str
    owner: str = ""  #: its class; empty for a function
    since: str = ""  #: the releases that have it, from this one on at the latest: see `Patches.has`
    until: str = ""
    absent: str = ""
    saved: str = ""  #: the argument with what it saves; all other saving ends in calls that have one
    #: the argument after it, with the file that it is saved to; of a method, the folder to which its object saves itself
    file: str = ""
    aliases: tuple[str, ...] = ()  #: further names under which libraries import it

    @property
    def releases(self) -> dict[str, str]:
        """Return what is known of releases without it."""
        known = {"since": self.since, "until": self.until, "absent": self.absent}
        return {word: text for word, text in known.items() if text}


def _watched_calls() -> Iterator[WatchedCall]:
    for phase, calls in decoded_lists(table_beside(__file__)).items():
        for call in calls:
            fields = decoded_entries(call)
            aliases = decoded_texts(fields.pop("aliases", []))
            yield WatchedCall(phase=phase, aliases=aliases, **{n: decoded_text(value) for n, value in fields.items()})


CALLS = tuple(_watched_calls())

Occasion = Callable[[str], AbstractContextManager[None]]


class OccasionWatch:
    """Runs each of `CALLS` in ``occasion(phase)`` within the block, nested calls included, and passes what is saved, and
    the file, to ``saves``. Raises nothing of its own."""

    def __init__(self, occasion: Occasion, saves: Callable[[Any, object], None]) -> None:
        self._occasion = occasion
        self._saves = saves
        self._patches = Patches("a phase while the call lasts")
        self._gone: set[WatchedCall] = set()  #: calls that this release lacks
        self._waiting = list(CALLS)

    def __enter__(self) -> OccasionWatch:
        self.look()
        return self

    def __exit__(self, *exc: object) -> None:
        self._patches.close()

    def look(self) -> None:
        """Watch what has been imported so far."""
        self._waiting = [call for call in self._waiting if not self._watch(call)]

    def _watch(self, call: WatchedCall) -> bool:
        """Patch the call if its module is loaded; return True if it was patched."""
        imported = sys.modules.get(call.module)
        if imported is None or call in self._gone:
            return False
        place: Any = vars(imported).get(call.owner) if call.owner else imported
        original = vars(place).get(call.name) if place is not None else None
        if original is None:
            if not self._is_inherited(imported, call):
                return False
            original = inspect.getattr_static(place, call.name)
        if not call.owner:
            watched = self._watched(call.phase, self._seen(original, call))
            for known_as in (call.name, *call.aliases):
                self._patches.everywhere(original, watched, known_as)
        elif isinstance(original, classmethod):
            self._patches.replace(place, call.name, classmethod(self._watched(call.phase, original.__func__)))
        else:
            self._patches.replace(place, call.name, self._watched(call.phase, self._saves_itself(original, call)))
        return True

    def _is_inherited(self, imported: types.ModuleType, call: WatchedCall) -> bool:
        """Return True if the call's class inherits it; False if the module is still being imported, or the release lacks
        the call. Raise MissingTarget if no release may."""
        if getattr(getattr(imported, "__spec__", None), "_initializing", False):
            return False
        releases = call.releases
        here = not call.owner or self._patches.has(imported, call.owner, **releases)
        place = getattr(imported, call.owner, None) if call.owner else imported
        if call.owner and here and place.__module__.partition(".")[0] != call.module.partition(".")[0]:
            releases = {"absent": "a replacement of the class has only what programs need"}
        here = here and self._patches.has(place, call.name, **releases)
        if not here:
            self._gone.add(call)
        return here

    def _seen(self, original: Callable[..., object], call: WatchedCall) -> Callable[..., object]:
        """Return the function that also passes what is saved to ``saves``: its first argument, and the file, its second."""
        if not call.saved:
            return original

        @functools.wraps(original)
        def seen(*args: object, **kwargs: object) -> Any:
            if not _is_in_memory(args, kwargs):
                saved = args[0] if args else kwargs.get(call.saved)
                self._saves(saved, args[1] if len(args) > 1 else kwargs.get(call.file))
            return original(*args, **kwargs)

        return seen

    def _saves_itself(self, original: Callable[..., object], call: WatchedCall) -> Callable[..., object]:
        """Return the method that also passes its object, once it is saved, to ``saves``, and the folder."""
        if not call.file:
            return original

        @functools.wraps(original)
        def saved(itself: object, *args: object, **kwargs: object) -> object:
            returned = original(itself, *args, **kwargs)
            self._saves(itself, args[0] if args else kwargs.get(call.file))
            return returned

        return saved

    def _watched(self, phase: str, original: Callable[..., Any]) -> Callable[..., object]:
        if inspect.isgeneratorfunction(inspect.unwrap(original)):  # behind ``contextmanager``

            @functools.wraps(original)
            @contextlib.contextmanager
            def entered(*args: object, **kwargs: object) -> Iterator[object]:
                with self._occasion(phase), original(*args, **kwargs) as held:
                    yield held
                    del held

            return entered

        @functools.wraps(original)
        def within_phase(*args: object, **kwargs: object) -> Any:
            if _is_in_memory(args, kwargs):
                return original(*args, **kwargs)
            with self._occasion(phase):
                return original(*args, **kwargs)

        return within_phase


def _is_in_memory(args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Return True if torch pickles a tensor that is sent to another rank: it writes into memory."""
    return any(isinstance(value, io.BytesIO) for value in (*args, *kwargs.values()))
