"""Reports in other languages: a gettext catalogue for each, ``LANGUAGE.po`` beside this module.

Catalogues are read as translators edit them, so none is compiled: `_compiled` hands gettext in memory what msgfmt would
write. To add a language, see "Common changes" in ``docs/architecture.md``.
"""

from __future__ import annotations

import ast
import functools
import gettext
import io
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dsregress.messages import Text, rendered

#: Renders a text.
Say = Callable[[Text], str]

ENGLISH = "en"
LANGUAGES = (ENGLISH, "zh")

#: Between the singular and the plural of an id, and between the forms of a translation, in a compiled catalogue.
_NEXT_FORM = "\0"

_MAGIC = 0x950412DE
_HEADER_BYTES, _ENTRY_BYTES = 28, 8


def saying(language: str) -> Say:
    """Return the function that renders a text in one of `LANGUAGES`."""
    return str if language == ENGLISH else functools.partial(rendered, translations=_translations(language))


@functools.cache
def _translations(language: str) -> gettext.GNUTranslations:
    text = (Path(__file__).parent / f"{language}.po").read_text(encoding="utf-8")
    return gettext.GNUTranslations(io.BytesIO(_compiled(dict(catalogue_entries(text)))))


def catalogue_entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the id of each message of a catalogue, and its translation. Forms of a plural are joined as in a compiled one;
    the header is the translation of the empty id."""
    entry: list[list[str]] = []  # an id, its plural, translations
    for line in [*text.splitlines(), 'msgid ""']:
        keyword, _, quoted = line.partition('"')
        if keyword.strip() == "msgid":
            if entry:
                yield _joined_forms(entry, "msgid"), _joined_forms(entry, "msgstr")
            entry = []
        if quoted and not line.startswith("#"):
            if keyword.strip():
                entry.append([keyword.strip()])
            entry[-1].append(ast.literal_eval(f'"{quoted}'))


def _joined_forms(entry: list[list[str]], keyword: str) -> str:
    return _NEXT_FORM.join("".join(parts) for name, *parts in entry if name.startswith(keyword))


def _compiled(entries: Mapping[str, str]) -> bytes:
    """Return a catalogue in the format of GNU .mo files, which gettext reads: its ids in order, and their translations."""
    ids, texts = b"", b""
    places: list[tuple[int, int, int, int]] = []
    for name in sorted(entries):
        own, other = name.encode(), entries[name].encode()
        places.append((len(own), len(ids), len(other), len(texts)))
        ids, texts = ids + own + b"\0", texts + other + b"\0"
    at_texts = _HEADER_BYTES + len(places) * _ENTRY_BYTES
    at_data = at_texts + len(places) * _ENTRY_BYTES
    header = struct.pack("<7I", _MAGIC, 0, len(places), _HEADER_BYTES, at_texts, 0, at_data)
    first = b"".join(struct.pack("<2I", size, at_data + at) for size, at, _, _ in places)
    second = b"".join(struct.pack("<2I", size, at_data + len(ids) + at) for _, _, size, at in places)
    return header + first + second + ids + texts
