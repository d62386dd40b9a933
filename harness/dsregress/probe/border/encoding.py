"""Converts a framework's values to text and to values that JSON has and the host reads. Standard library only.

A release's configuration and its errors are free in form: a learning rate of infinity, a text with half of a character, an
object that cannot be printed, a list that holds itself. None of them may cost the run its measurements, so everything that
the probe writes or sends passes through here. A value that JSON lacks is written as the text that Python prints for it:
``inf``, ``b'...'``, ``torch.bfloat16``. A value that is too long or too deep is cut and says so.
"""

from __future__ import annotations

import json
import math
from typing import Any

#: Longest text; most values in one configuration, and characters of its texts. More than any person reads.
TEXT_LENGTH = 10_000
MOST_VALUES = 20_000
MOST_CHARACTERS = 1 << 21

#: How deep a configuration nests.
MOST_LEVELS = 50

#: A larger integer is written as text: few readers of JSON have more than 64 bits.
_MOST_INTEGER = 1 << 63

#: Python prints no integer with more digits (`sys.set_int_max_str_digits`).
_MOST_BITS = 10_000


def bounded_text(value: object, length: int = TEXT_LENGTH) -> str:
    """Return the text that Python prints for any object, at most ``length`` characters, without code points that UTF-8
    cannot encode (half of a surrogate pair) and without NUL, which becomes ``\\x00``."""
    try:
        printed = str.__str__(value) if isinstance(value, str) else str(value)
        printed = str.__str__(printed)  # a text of the framework's own class is a text from here on
    except KeyboardInterrupt:
        raise
    except BaseException:  # the framework's own code runs here, and may even try to exit
        return f"<{type(value).__name__} that cannot be printed>"
    if len(printed) > length:
        printed = f"{printed[:length]}... ({len(printed)} characters)"
    return printed.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def free_value(content: object) -> Any:
    """Return a framework's value as JSON has it: None, booleans, numbers, texts, lists, and dictionaries by texts. At most
    `MOST_VALUES` of them are kept."""
    return _Values(MOST_VALUES, MOST_CHARACTERS).value(content, ())


def encode(content: object) -> str:
    """Return one line of JSON that any reader takes. All of its values are kept."""
    return json.dumps(_Values().value(content, ()), allow_nan=False)


class _Values:
    """A budget of ``most`` values with so many ``characters`` in all, or unlimited."""

    def __init__(self, most: int | None = None, characters: int | None = None) -> None:
        self._left, self._room = most, characters

    def _text(self, content: object) -> str:
        if self._room is None:
            return bounded_text(content, MOST_CHARACTERS)  # of ours, or cut already
        printed = bounded_text(content, min(TEXT_LENGTH, self._room))
        self._room = max(0, self._room - len(printed))
        return printed

    def value(self, content: object, outer: tuple[int, ...]) -> Any:
        """Return ``content`` as JSON has it. ``outer`` are the ids of the containers around it."""
        if content is None or content is True or content is False:
            return content
        if isinstance(content, str):
            return self._text(content)
        if isinstance(content, int):
            return _integer(int.__int__(content))
        if isinstance(content, float):
            number = float.__float__(content)
            return number if math.isfinite(number) else str(number)
        if isinstance(content, (dict, list, tuple, set, frozenset)):
            if id(content) in outer:
                return "... (it holds itself)"
            if len(outer) >= MOST_LEVELS:
                return f"... ({type(content).__name__}, nested too deep)"
            inside = (*outer, id(content))
            return self._dictionary(content, inside) if isinstance(content, dict) else self._list(content, inside)
        return self._text(content)

    def _dictionary(self, content: dict[object, object], inside: tuple[int, ...]) -> dict[str, object]:
        found: dict[str, Any] = {}
        for key, member in list(dict.items(content)):
            if not self._takes_one():
                found["..."] = f"{dict.__len__(content)} members"
                break
            name = self._text(key)
            found[f"{name} ({type(key).__name__})" if name in found else name] = self.value(member, inside)
        return found

    def _list(self, content: Any, inside: tuple[int, ...]) -> list[object]:
        # A set has no order of its own: two runs would differ.
        members = sorted(content, key=bounded_text) if isinstance(content, (set, frozenset)) else list(content)
        found: list[Any] = []
        for member in members:
            if not self._takes_one():
                return [*found, f"... ({len(members)} members)"]
            found.append(self.value(member, inside))
        return found

    def _takes_one(self) -> bool:
        if self._left is None:
            return True
        self._left -= 1
        return self._left >= 0


def _integer(number: int) -> int | str:
    if abs(number) < _MOST_INTEGER:
        return number
    return str(number) if number.bit_length() <= _MOST_BITS else f"an integer of {number.bit_length()} bits"
