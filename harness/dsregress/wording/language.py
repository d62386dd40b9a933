"""Reports in another language: sentences are translated by a catalogue of patterns, as they are printed.

A catalogue is a TOML file next to this module. ``{#n}`` in a pattern matches a number, ``{=v}`` a word without spaces,
``{x}`` any text, which is translated in turn, ``{!x}`` one that is not; ``(s)`` is optional. A text without a matching
pattern is split where sentences, clauses and lists are joined; remaining parts, such as names and commands, stay.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

#: Translates a text.
Say = Callable[[str], str]

ENGLISH = "en"
LANGUAGES = (ENGLISH, "zh")

_FIELD = re.compile(r"\\\{(?P<kind>\\#|=|!)?(?P<name>\w+)\\\}")
_TEXTS = {"\\#": r"[+-]?[\d,.]+", "=": r"\S+", "!": r".+", None: r".+?"}


def saying(language: str) -> Say:
    """Return the function that translates a text into one of `LANGUAGES`."""
    return _same if language == ENGLISH else _catalogue(language).say


def _same(text: str) -> str:
    return text


@functools.cache
def _catalogue(language: str) -> _Catalogue:
    file = Path(__file__).parent / f"{language}.toml"
    content = msgspec.toml.decode(file.read_bytes(), type=dict[str, dict[str, str]])
    return _Catalogue(content["sentences"], list(content["joints"].items()))


class _Catalogue:
    """The patterns of one language, those with the most words of their own first; and the joints at which texts are split,
    in order: sentences first."""

    def __init__(self, sentences: dict[str, str], joints: Sequence[tuple[str, str]]) -> None:
        order = sorted(sentences, key=lambda english: -len(_FIELD.sub("", re.escape(english))))
        self._patterns = [(english, _pattern(english), sentences[english]) for english in order]
        self._joints = joints

    def say(self, text: str) -> str:
        """Return the translated text, line by line; indentation stays."""
        return "\n".join(self._line(line) for line in text.split("\n"))

    def _line(self, line: str) -> str:
        words = line.strip(" ")
        start = line[: len(line) - len(line.lstrip(" "))]
        return f"{start}{self._said(words)}" if words else line

    def _said(self, text: str) -> str:
        if text.endswith(".") and not text.endswith("..") and (said := self._said(text[:-1])) != text[:-1]:
            return said + self._joints[0][1]
        for english, pattern, other in self._patterns:
            if found := pattern.fullmatch(text):
                values = {
                    name: value if f"{{!{name}}}" in english else self._said(value)
                    for name, value in found.groupdict().items()
                }
                return other.format(**values)
        for english, other in self._joints:
            parts = _apart(text, english)
            if len(parts) > 1:
                translated = [self._said(part) for part in parts]
                if translated != parts:
                    return other.join(translated)
        return text


def _pattern(english: str) -> re.Pattern[str]:
    text = re.escape(english).replace(re.escape("(s)"), "s?").replace(re.escape("(es)"), "(?:es)?")
    return re.compile(_FIELD.sub(lambda field: f"(?P<{field['name']}>{_TEXTS[field['kind']]})", text))


def _apart(text: str, joint: str) -> list[str]:
    """Split a text at the joints outside of brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 and text.startswith(joint, at):
            parts.append(text[start:at])
            at += len(joint)
            start = at
        else:
            at += 1
    return [*parts, text[start:]]
