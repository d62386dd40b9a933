"""Rows of synthetic data sets: the columns that trainers need, realistic lengths, the same in every run. Without torch.

Texts are sentences of frequent English words. Their lengths in words are drawn from a log-normal distribution, cut at
both ends, which lengths of real texts roughly follow:

| | median | sigma | least | most |
|---|---|---|---|---|
| a question | 30 | 0.7 | 4 | 300 |
| a short question, on a document | 11 | 0.4 | 3 | 40 |
| an answer | 110 | 0.8 | 8 | 900 |
| a document | 220 | 0.8 | 20 | 1500 |

Conversations have one to three exchanges. Images are PNG files and sounds WAV files, eight of each kind. The seed is the
data set's name, its split and the row.
"""

from __future__ import annotations

import functools
import io
import math
import random
import struct
import wave
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from skeletons.words import WORDS

#: Rows of a training split, and of others; sounds are large, so their training splits have as few as others.
TRAIN_ROWS = 2048
OTHER_ROWS = 256

_LENGTHS = {
    "question": (30, 0.7, 4, 300),
    "short_question": (11, 0.4, 3, 40),
    "answer": (110, 0.8, 8, 900),
    "document": (220, 0.8, 20, 1500),
}

Maker = Callable[[random.Random, int], Any]


def column_makers(columns: str) -> dict[str, str]:
    """Return the maker of each column in ``columns``, written as in ``substitutes.known_datasets``."""
    parts = (column.partition(":") for column in columns.split())
    return {label: kind or label for label, _, kind in parts}


def make_table(
    columns: str, name: str, split: str, rows: int | None = None, more: Mapping[str, str] | None = None
) -> dict[str, list[object]]:
    """Return the values of each column, for ``columns`` written as in ``substitutes.known_datasets`` and for
    ``more`` columns with their makers."""
    kinds = {**column_makers(columns), **(more or {})}
    heard = any(kind in SOUNDS for kind in kinds.values())
    count = rows or (TRAIN_ROWS if split.startswith("train") and not heard else OTHER_ROWS)
    made: dict[str, list[Any]] = {}
    for label, kind in kinds.items():
        maker = MAKERS[kind]
        seed = zlib.crc32(f"{name} {split} {label}".encode())
        draws = [random.Random(seed * 1_000_003 + row) for row in range(count)]
        if label == "rejected" and kind in _CONVERSATIONS:
            made[label] = [_answered_otherwise(chosen, draw) for chosen, draw in zip(made["chosen"], draws)]
        else:
            made[label] = [maker(draw, row) for row, draw in enumerate(draws)]
    return made


#: Kinds that hold a prompt and its answer: trainers look for the prompt that two of them begin with.
_CONVERSATIONS = ("dialogue", "messages", "turns", "human_assistant")


def _answered_otherwise(conversation: Any, draw: random.Random) -> object:
    """Return the same conversation with another last answer."""
    if isinstance(conversation, str):
        return conversation[: conversation.rindex(": ") + 2] + make_text(draw, "answer")
    return [*conversation[:-1], {**conversation[-1], "content": make_text(draw, "answer")}]


def make_text(draw: random.Random, kind: str) -> str:
    """Return sentences of 6 to 18 words, with about as many words in all as texts of this kind have. Frequent words
    occur more often."""
    median, sigma, least, most = _LENGTHS[kind]
    left = min(most, max(least, round(median * math.exp(draw.gauss(0, sigma)))))
    sentences = []
    while left > 0:
        length = min(left, draw.randint(6, 18))
        words = [WORDS[int(len(WORDS) * draw.random() ** 2)] for _ in range(length)]
        sentences.append(" ".join(words).capitalize() + ".")
        left -= length
    return " ".join(sentences)


def _dialogue(draw: random.Random, exchanges: int) -> list[dict[str, str]]:
    return [
        {"role": role, "content": make_text(draw, kind)}
        for _ in range(exchanges)
        for role, kind in (("user", "question"), ("assistant", "answer"))
    ]


def _turns(draw: random.Random, human: str, assistant: str) -> str:
    names = {"user": human, "assistant": assistant}
    return "".join(f"{names[part['role']]}{part['content']}" for part in _dialogue(draw, draw.randint(1, 3)))


def _worked_answer(draw: random.Random, row: int) -> str:
    return f"{make_text(draw, 'answer')}\n#### {draw.randint(1, 999)}"


def _span(draw: random.Random, row: int) -> dict[str, list[object]]:
    return {"text": [draw.choice(WORDS)], "answer_start": [0]}


def _translation(other: str) -> Maker:
    return lambda draw, row: {"en": make_text(draw, "question"), other: make_text(draw, "question")}


def _tagged(item: Callable[[random.Random], object]) -> Maker:
    """Return a maker of one item per word. A row's number decides how many words it has, so that columns agree."""
    return lambda draw, row: [item(draw) for _ in range(5 + row % 20)]


def _stored_file(content: bytes) -> dict[str, object]:
    """Return a file as ``datasets`` stores an image or a sound."""
    return {"bytes": content, "path": None}


@functools.cache
def _picture(size: int, number: int) -> bytes:
    """Return a PNG of size x size pixels with colored stripes (https://www.w3.org/TR/png/)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\0"
        + bytes(
            (column * number, row * number, row + column)[channel] % 256
            for column in range(size)
            for channel in range(3)
        )
        for row in range(size)
    )
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 1)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@functools.cache
def _sound(number: int) -> bytes:
    """Return a WAV of 2 to 16 s, 16 kHz, 16 bits, one channel."""
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLING_RATE)
        file.writeframes(bytes(range(0, 200, 2 * number)) * (640 * number * number))
    return held.getvalue()


def _text_of(kind: str) -> Maker:
    return lambda draw, row: make_text(draw, kind)


def _one_of(classes: int) -> Maker:
    return lambda draw, row: draw.randrange(classes)


#: maker -> number of classes; a row has the index of one
CLASSES = {"flag": 2, **{f"class_of_{count}": count for count in (3, 4, 5, 9, 10, 14, 20, 100, 101, 1000)}}

#: maker -> number of classes; a row has one of them for each of its words
TAGS = {"tags": 9, "many_tags": 47}

#: Makers of columns that hold files.
IMAGES = ("image", "small_image")
LISTS_OF_IMAGES = ("images",)
SOUNDS = ("audio",)
SAMPLING_RATE = 16_000

#: The other language of a data set for translation.
LANGUAGES = ("cs", "de", "es", "et", "fi", "fr", "gu", "hi", "it", "ja", "kk", "lt", "lv", "ro", "ru", "tr", "zh")


def _passages_of(count: int) -> Maker:
    """Return a maker of passages like MS MARCO's: each of a few sentences."""
    return lambda draw, row: [
        {"docid": str(draw.randrange(8_000_000)), "title": draw.choice(WORDS), "text": make_text(draw, "question")}
        for _ in range(count)
    ]


def _picture_of(pixels: int) -> Maker:
    return lambda draw, row: _stored_file(_picture(pixels, 1 + row % 8))


def _exchanges(draw: random.Random) -> list[dict[str, str]]:
    """Return questions with answers, as conversations about images have them."""
    return [
        {"user": make_text(draw, "short_question"), "assistant": make_text(draw, "question"), "source": "made-up"}
        for _ in range(draw.randint(1, 3))
    ]


#: maker -> value of a row
MAKERS: dict[str, Maker] = {
    **{kind: _text_of(kind) for kind in _LENGTHS},
    "worked_answer": _worked_answer,
    "number": lambda draw, row: str(draw.randint(1, 999)),
    "title": lambda draw, row: draw.choice(WORDS),
    "id": lambda draw, row: f"{draw.getrandbits(64):016x}",
    "row": lambda draw, row: row,
    "few": lambda draw, row: 1 + row % 3,
    **{name: _one_of(count) for name, count in CLASSES.items()},
    "truth": lambda draw, row: bool(row % 2),
    "score": lambda draw, row: round(draw.uniform(1, 10), 1),
    "fraction": lambda draw, row: round(draw.random(), 3),
    "span": _span,
    **{kind: _passages_of(count) for kind, count in (("passage", 1), ("passages", 30))},
    "messages": lambda draw, row: _dialogue(draw, draw.randint(1, 3)),
    "dialogue": lambda draw, row: _dialogue(draw, 1),
    "user_messages": lambda draw, row: [{"role": "user", "content": make_text(draw, "question")}],
    "assistant_messages": lambda draw, row: [{"role": "assistant", "content": make_text(draw, "answer")}],
    "conversations": lambda draw, row: [
        {"from": {"user": "human", "assistant": "gpt"}[part["role"]], "value": part["content"]}
        for part in _dialogue(draw, draw.randint(1, 3))
    ],
    "turns": lambda draw, row: _turns(draw, "### Human: ", "### Assistant: "),
    "human_assistant": lambda draw, row: _turns(draw, "\n\nHuman: ", "\n\nAssistant: "),
    "words": _tagged(lambda draw: draw.choice(WORDS)),
    "tags": _tagged(lambda draw: draw.randrange(TAGS["tags"])),
    "many_tags": _tagged(lambda draw: draw.randrange(TAGS["many_tags"])),
    **{kind: _picture_of(pixels) for kind, pixels in (("image", 256), ("small_image", 32))},
    "images": lambda draw, row: [_picture_of(256)(draw, row)],
    "exchanges": lambda draw, row: _exchanges(draw),
    "audio": lambda draw, row: _stored_file(_sound(1 + row % 8)),
    **{f"en_{other}": _translation(other) for other in LANGUAGES},
    "steps": lambda draw, row: [make_text(draw, "question") for _ in range(3)],
    "choices": lambda draw, row: [make_text(draw, "short_question") for _ in range(4)],
    "step_labels": lambda draw, row: [True, bool(row % 2), False],
}


def holds_lists(maker: str) -> bool:
    """Return True if a maker's values are lists."""
    return isinstance(MAKERS[maker](random.Random(0), 0), list)
