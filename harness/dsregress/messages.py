"""Sentences as facts: an English message with named placeholders, and the values in them. They are rendered last.

`str` renders a text in English; `rendered` takes the translations of another language (see `dsregress.wording.language`).
Names, errors and commands are plain strings, which no language changes. The English message is the id of its translation.
"""

from __future__ import annotations

import functools
import gettext
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

_ENGLISH = gettext.NullTranslations()


class Message(msgspec.Struct, frozen=True):
    """A sentence, or a part of one. The value of ``count`` chooses between singular and plural."""

    id: str  #: ``{phase} peaks {size} higher``
    values: tuple[tuple[str, Value], ...] = ()
    plural_id: str = ""  #: empty if it has no plural

    def with_values(self, **values: Value) -> Message:
        """Return the message with more values."""
        return Message(self.id, (*self.values, *values.items()), self.plural_id)

    def __str__(self) -> str:
        return rendered(self, _ENGLISH)


class Joined(msgspec.Struct, frozen=True):
    """Texts one after another, with a joint between them."""

    joint: Message  #: of two texts, ``{first}`` and ``{next}``
    parts: tuple[Text, ...]

    def __str__(self) -> str:
        return rendered(self, _ENGLISH)


#: What a reader reads: from facts, or as others wrote it.
Text: TypeAlias = str | Message | Joined
Value: TypeAlias = str | int | float | Message | Joined


def message(id: str, **values: Value) -> Message:
    """Return a message. Its ``id`` has to be a literal, from which the catalogues are checked."""
    return Message(id, tuple(values.items()))


def plural_message(one: str, many: str, count: int, **values: Value) -> Message:
    """Return a message about a number of things, which it has as ``{count}``. Both ids have to be literals."""
    return Message(one, (("count", count), *values.items()), many)


#: Joints.
COMMA = message("{first}, {next}")
SEMICOLON = message("{first}; {next}")
COLON = message("{first}: {next}")
AND = message("{first} and {next}")
TO = message("{first} to {next}")
OR = message("{first} or {next}")
SENTENCE = message("{first} {next}")


def joined(joint: Message, parts: Iterable[Text]) -> Text:
    """Return the parts that are not empty with a joint between them; a single part is returned as it is, and none as an
    empty text."""
    own = tuple(part for part in parts if part)
    if not own:
        return ""
    return own[0] if len(own) == 1 else Joined(joint, own)


def name_list(names: Sequence[Text], most: int = 6) -> Text:
    """Return ``a, b, c and 4 more``."""
    shown = joined(COMMA, names[:most])
    return message("{names} and {count} more", names=shown, count=len(names) - most) if len(names) > most else shown


def rendered(text: Value, translations: gettext.NullTranslations) -> str:
    """Return a text in the language of the translations. What they do not have stays English."""
    if isinstance(text, Joined):
        pattern = translations.gettext(text.joint.id)
        first, *others = (rendered(part, translations) for part in text.parts)
        return functools.reduce(lambda whole, part: pattern.format(first=whole, next=part), others, first)
    if not isinstance(text, Message):
        return str(text)
    values = {
        name: value if isinstance(value, (int, float)) else rendered(value, translations) for name, value in text.values
    }
    template = translations.gettext(text.id)
    if text.plural_id:
        template = translations.ngettext(text.id, text.plural_id, int(values["count"]))
    return template.format_map(values)
