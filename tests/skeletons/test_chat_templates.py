"""A chat template of a family does what that family's own does with the options that people set."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import pytest

import skeletons

TABLE = Path(skeletons.__file__).parent / "tables" / "chat_templates.json"
ASKED = {"role": "user", "content": "What is 1 + 1?"}
ANSWERED = {"role": "assistant", "content": "<think>\nTwo.\n</think>\n\nIt is 2."}
ASKED_TEXT = "<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n"


def rendered(family: str, messages: list[dict[str, str]], **options: object) -> str:
    template = "".join(json.loads(TABLE.read_text("utf-8"))[family])
    return (
        jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        .from_string(template)
        .render(messages=messages, **options)
    )


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ({}, ""),
        ({"add_generation_prompt": True}, "<|im_start|>assistant\n"),
        ({"add_generation_prompt": True, "enable_thinking": True}, "<|im_start|>assistant\n"),
        ({"add_generation_prompt": True, "enable_thinking": False}, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
    ],
)
def test_qwen_3_begins_an_answer_without_thought_where_it_is_told_so(options: dict[str, object], end: str) -> None:
    assert rendered("qwen-3", [ASKED], **options) == ASKED_TEXT + end


def test_qwen_3_keeps_the_thought_of_the_last_answer_alone() -> None:
    plain = "<|im_start|>assistant\nIt is 2.<|im_end|>\n"
    thought = "<|im_start|>assistant\n<think>\nTwo.\n</think>\n\nIt is 2.<|im_end|>\n"
    assert rendered("qwen-3", [ASKED, ANSWERED]) == ASKED_TEXT + thought
    assert rendered("qwen-3", [ASKED, ANSWERED, ASKED]) == ASKED_TEXT + plain + ASKED_TEXT
