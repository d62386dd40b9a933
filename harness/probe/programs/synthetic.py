"""Rows of made-up data sets: columns that trainers want, lengths like real ones, the same in every run. No torch.

Texts are sentences of frequent English words. Their lengths in words are drawn from a log-normal distribution, cut at both
ends, as lengths of real texts roughly are:

| | median | sigma | least | most |
|---|---|---|---|---|
| a question | 30 | 0.7 | 4 | 300 |
| an answer | 110 | 0.8 | 8 | 900 |
| a document | 220 | 0.8 | 20 | 1500 |

Conversations have one to three exchanges. The seed is the data set's name, its split and the row.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable
from typing import Any

from harness.probe.skeleton.words import WORDS

#: Rows of the split that is trained on, and of others.
TRAIN_ROWS = 2048
OTHER_ROWS = 256

_LENGTHS = {"question": (30, 0.7, 4, 300), "answer": (110, 0.8, 8, 900), "document": (220, 0.8, 20, 1500)}

Maker = Callable[[random.Random, int], Any]


def table(columns: str, name: str, split: str, rows: int | None = None) -> dict[str, list[Any]]:
    """Column -> values, of a row of ``harness.probe.programs.known_data``."""
    count = rows or (TRAIN_ROWS if split.startswith("train") else OTHER_ROWS)
    made: dict[str, list[Any]] = {}
    for column in columns.split():
        label, _, kind = column.partition(":")
        maker = MAKERS[kind or label]
        seed = zlib.crc32(f"{name} {split} {label}".encode())
        draws = [random.Random(seed * 1_000_003 + row) for row in range(count)]
        if label == "rejected" and kind in _CONVERSATIONS:
            made[label] = [_answered_otherwise(chosen, draw) for chosen, draw in zip(made["chosen"], draws)]
        else:
            made[label] = [maker(draw, row) for row, draw in enumerate(draws)]
    return made


#: Kinds that hold a prompt and its answer: trainers look for the prompt that two of them begin with.
_CONVERSATIONS = ("dialogue", "messages", "turns", "human_assistant")


def _answered_otherwise(conversation: Any, draw: random.Random) -> Any:
    """The same conversation with another last answer."""
    if isinstance(conversation, str):
        return conversation[: conversation.rindex(": ") + 2] + text(draw, "answer")
    return [*conversation[:-1], {**conversation[-1], "content": text(draw, "answer")}]


def text(draw: random.Random, kind: str) -> str:
    """Sentences of about a dozen words. The more frequent a word, the more often it stands here."""
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
        {"role": role, "content": text(draw, kind)}
        for _ in range(exchanges)
        for role, kind in (("user", "question"), ("assistant", "answer"))
    ]


def _turns(draw: random.Random, human: str, assistant: str) -> str:
    names = {"user": human, "assistant": assistant}
    return "".join(f"{names[part['role']]}{part['content']}" for part in _dialogue(draw, draw.randint(1, 3)))


def _worked_answer(draw: random.Random, row: int) -> str:
    return f"{text(draw, 'answer')}\n#### {draw.randint(1, 999)}"


def _span(draw: random.Random, row: int) -> dict[str, list[Any]]:
    return {"text": [draw.choice(WORDS)], "answer_start": [0]}


def _one_of(classes: int) -> Maker:
    return lambda draw, row: draw.randrange(classes)


#: maker -> number of classes, where a row has the index of one
CLASSES = {"flag": 2, "class_of_3": 3, "class_of_4": 4, "class_of_5": 5}

#: maker -> value of a row
MAKERS: dict[str, Maker] = {
    "question": lambda draw, row: text(draw, "question"),
    "answer": lambda draw, row: text(draw, "answer"),
    "document": lambda draw, row: text(draw, "document"),
    "worked_answer": _worked_answer,
    "number": lambda draw, row: str(draw.randint(1, 999)),
    "title": lambda draw, row: draw.choice(WORDS),
    "id": lambda draw, row: f"{draw.getrandbits(64):016x}",
    "row": lambda draw, row: row,
    **{name: _one_of(count) for name, count in CLASSES.items()},
    "truth": lambda draw, row: bool(row % 2),
    "score": lambda draw, row: round(draw.uniform(1, 10), 1),
    "span": _span,
    "messages": lambda draw, row: _dialogue(draw, draw.randint(1, 3)),
    "dialogue": lambda draw, row: _dialogue(draw, 1),
    "user_messages": lambda draw, row: [{"role": "user", "content": text(draw, "question")}],
    "assistant_messages": lambda draw, row: [{"role": "assistant", "content": text(draw, "answer")}],
    "conversations": lambda draw, row: [
        {"from": {"user": "human", "assistant": "gpt"}[part["role"]], "value": part["content"]}
        for part in _dialogue(draw, draw.randint(1, 3))
    ],
    "turns": lambda draw, row: _turns(draw, "### Human: ", "### Assistant: "),
    "human_assistant": lambda draw, row: _turns(draw, "\n\nHuman: ", "\n\nAssistant: "),
    "steps": lambda draw, row: [text(draw, "question") for _ in range(3)],
    "step_labels": lambda draw, row: [True, bool(row % 2), False],
}
