"""Reports in another language."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from dsregress.compare.exact_differences import change_text
from dsregress.compare.metrics import BY_NAME, DEVICE_RETAINED
from dsregress.compare.metrics import FILE as METRICS_FILE
from dsregress.messages import COMMA, SENTENCE, Message, joined, message, plural_message
from dsregress.model import Failed
from dsregress.report.problem_kinds import FILE as KINDS_FILE
from dsregress.report.problem_kinds import KINDS
from dsregress.wording import language, workload_words
from dsregress.wording.language import ENGLISH, LANGUAGES, catalogue_entries, saying
from dsregress.wording.names import outcome_words
from tests.builders.sources import parsed
from tests.paths import SOURCE

OTHERS = sorted(set(LANGUAGES) - {ENGLISH})

#: Functions that make a message -> how many ids it has.
_IDS = {"message": 1, "plural_message": 2}

zh = saying("zh")


def ids() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where each message of the code is, and its ids."""
    for file in sorted((SOURCE / "dsregress").rglob("*.py")):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _IDS:
                where = f"{file.relative_to(SOURCE)}:{node.lineno}"
                own = [ast.literal_eval(one) for one in node.args[: _IDS[node.func.id]]]
                yield where, tuple(own)
    for name, metric in BY_NAME.items():
        for text in (metric.phrase.more, metric.phrase.less, metric.wrong, metric.symptom):
            if isinstance(text, Message):
                yield f"{METRICS_FILE.relative_to(SOURCE)}: {name}", (text.id,)
    for kind in KINDS.values():
        for text in (kind.title, kind.run_word):
            yield f"{KINDS_FILE.relative_to(SOURCE)}: {kind.section}", (text.id,)
    for name, words in workload_words.WORDS.items():
        for text in words.values():
            yield f"{workload_words.FILE.relative_to(SOURCE)}: {name}", (text.id,)


def catalogue(name: str) -> dict[str, str]:
    return dict(catalogue_entries((Path(language.__file__).parent / f"{name}.po").read_text(encoding="utf-8")))


def placeholders(text: str) -> set[tuple[str, str]]:
    return {(name, form or "") for _, name, form, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("name", OTHERS)
def test_every_message_is_translated_and_no_translation_is_left_over(name: str) -> None:
    translated = catalogue(name)
    used = {"\0".join(own): where for where, own in ids()}
    assert len(used) > 200
    assert [f"{where}: {own}" for own, where in used.items() if not translated.get(own)] == []
    assert translated.keys() - used.keys() == {""}


@pytest.mark.parametrize("name", OTHERS)
def test_a_translation_has_the_placeholders_of_its_message(name: str) -> None:
    for own, text in catalogue(name).items():
        for form in own.split("\0") if own else []:
            assert placeholders(text) == placeholders(form), own


def test_each_id_is_in_a_catalogue_once() -> None:
    for name in OTHERS:
        entries = list(catalogue_entries((Path(language.__file__).parent / f"{name}.po").read_text(encoding="utf-8")))
        assert len(entries) == len(dict(entries))


def test_a_catalogue_is_read_as_its_format_has_it() -> None:
    text = r"""
# a comment
msgid ""
msgstr "Language: xx\n"
"Plural-Forms: nplurals=2; plural=n>1;\n"

#: where.py:1
msgid "a \"b\""
" and more"
msgstr "A"

msgid "{count} cell"
msgid_plural "{count} cells"
msgstr[0] "{count} one"
msgstr[1] "{count} many"
"""
    assert dict(catalogue_entries(text)) == {
        "": "Language: xx\nPlural-Forms: nplurals=2; plural=n>1;\n",
        'a "b" and more': "A",
        "{count} cell\0{count} cells": "{count} one\0{count} many",
    }


def test_english_stays_as_it_is() -> None:
    counts = joined(COMMA, (plural_message("{count:,} crash", "{count:,} crashes", 1), "2 memory leaks"))
    assert saying(ENGLISH)(counts) == "1 crash, 2 memory leaks"


def test_a_sentence_is_translated_with_what_is_in_it() -> None:
    change = change_text(DEVICE_RETAINED, "backward", 6 << 20, 4 << 20, than="0.15.4")
    assert str(change) == "backward holds 2.00 MiB more after it ends than 0.15.4 (+50 %): 4.00 MiB -> 6.00 MiB"
    assert zh(change) == "与 0.15.4 相比反向结束后多占 2.00 MiB（+50 %）：4.00 MiB -> 6.00 MiB"
    counts = joined(COMMA, (plural_message("{count:,} crash", "{count:,} crashes", n) for n in (1, 1200)))
    assert zh(counts) == "1 处崩溃，1,200 处崩溃"
    use = message("Use {release}.", release="0.16.8")
    assert zh(joined(SENTENCE, (message("{sentence}.", sentence=change), use))).endswith("6.00 MiB。请用 0.16.8。")


def test_what_others_wrote_stays_as_it_is() -> None:
    error = "ValueError: forward and backward; step, 2 crashes. {stage}"
    assert zh(outcome_words(Failed("forward", error))) == f"前向失败：{error}"
    assert zh("dsregress compare A B") == "dsregress compare A B"
