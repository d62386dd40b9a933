"""Columns of made-up data sets that are in no table: what the program asks for, found by running it.

A data set that `harness.probe.programs.known_data` does not know has a column of each common name. A program that asks for
another one, or for another split, ends in an error that names it. That is noted in the folder of the run, and the cell
begins again, with it (`again`). What was added is kept in the cell's process, and every process that is forked from it has
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.probe.border.untrusted import read_regular, write_whole
from harness.probe.error_chain import behind_one_another
from harness.probe.programs import synthetic
from harness.probe.programs.errors import is_in_the_program

#: How often a cell begins again. A program that asks for more columns than these has rows of a kind that is not made here.
_MOST = 12

#: In the folder of a run: the column that a rank missed.
_NOTE = "column-that-is-missing"

_added: dict[str, str] = {}
_splits: list[str] = []

#: What is no column where ``rows["validation"]`` is not there.
_SPLIT = re.compile(r"(?:train|training|test|val|valid|validation|dev|eval|evaluation)(?:[_.].*)?")


def added() -> Mapping[str, str]:
    """Column -> its maker."""
    return dict(_added)


def splits() -> Sequence[str]:
    return tuple(_splits)


def is_added(name: str) -> bool:
    return name in _added or name in _splits


def note(folder: Path, column: str) -> None:
    """By a rank, as it ends."""
    write_whole(folder / _NOTE, column)


def again(folder: Path) -> bool:
    """By the cell's process, after its ranks have ended: whether they begin again, with one more column."""
    try:
        column = read_regular(folder / _NOTE, 1000).decode()
    except (OSError, ValueError):
        return False
    (folder / _NOTE).unlink()
    if is_added(column) or len(_added) + len(_splits) >= _MOST:
        return False
    if _SPLIT.fullmatch(column):
        _splits.append(column)
    else:
        _added[column] = maker_of(column)
    return True


#: How `datasets` and pandas go on once they have named the column that is not there.
_OTHERS = re.compile(r"(?:[Cc]urrent|[Aa]vailable) columns|\. (?:Make|Please)")
_QUOTED = re.compile(r"'([^'\n]+)'")
_UNQUOTED = re.compile(r"[Cc]olumn (?:name )?([^'\[\]\n]+?) (?:is )?not in ")


def missed(error: BaseException, sources: Iterable[Path], arguments: Sequence[str]) -> str | None:
    """The column for whose absence a program ended, which it names itself: in its ``sources``, or on its line, or in a file
    of settings there. None where it ended for another reason."""
    for one in behind_one_another(error):
        for column in _named_in(one):
            if _is_named(column, sources, arguments):
                return None if is_added(column) else column
    return None


def _named_in(error: BaseException) -> list[str]:
    """What an error says is not there, where that may be a column."""
    said = str(error.args[0]) if error.args else ""
    is_key = isinstance(error, KeyError)
    if not is_key and not (isinstance(error, ValueError) and "column" in said.lower()):
        return []
    first = _OTHERS.split(said)[0]
    return [*([said] if is_key else []), *_QUOTED.findall(first), *_UNQUOTED.findall(first)]


#: What a program or a library makes of rows, so that a release may have lost it; and what a model returns.
_MADE_BY_A_PROGRAM = frozenset((
    *("input_ids", "attention_mask", "labels", "token_type_ids", "position_ids", "decoder_input_ids", "pixel_values"),
    *("input_features", "input_values", "special_tokens_mask", "loss", "logits", "hidden_states", "past_key_values"),
))  # fmt: skip


def _is_named(column: str, sources: Iterable[Path], arguments: Sequence[str]) -> bool:
    words = {value for word in arguments for value in (word, word.rpartition("=")[2])}
    if column in _MADE_BY_A_PROGRAM:
        return False
    if column in words:
        return True
    settings = [Path(word) for word in words if word.endswith((".yaml", ".yml", ".json", ".toml"))]
    spelled = re.compile(rf"(?<![\w.-]){re.escape(column)}(?![\w.-])")
    quoted = re.compile(rf"([\"']){re.escape(column)}\1")
    return any(spelled.search(_text(file)) for file in settings) or any(quoted.search(_text(file)) for file in sources)


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


#: What a column holds, by its name; the first that fits.
_BY_NAME = (
    (r"messages|chat|dialogs?|dialogues?", "messages"),
    (r"conversations?", "conversations"),
    (r"(.*_)?(labels?|class|sentiment|is_.*)", "flag"),
    (r"(ner_|pos_|chunk_)?tags", "tags"),
    (r"tokens|words", "words"),
    (r"images?|img|pixel_values|pictures?|photo", "image"),
    (r"audio|speech|sound", "audio"),
    (r"(.*_)?(scores?|rating|similarity|margin|reward)", "score"),
    (r"(.*_)?(idx|index|length|count|year|num)|num_.*", "row"),
    (r"(.*_)?id", "id"),
    (r"(.*_)?(choices|options|candidates|sentences|keywords)", "choices"),
    (r"answers", "span"),
    (r"translation", "en_de"),
    (r"(.*_)?(title|name|source|type|category|language|lang|url|topic|subject|date|split)", "title"),
    (r".*(question|query|prompt|instruction|input|premise|hypothesis|sentence|tweet|caption|summary).*", "question"),
    (r".*(text|document|content|article|body|context|passage|code).*", "document"),
)


def maker_of(column: str) -> str:
    """By which maker of `synthetic` a column is filled."""
    name = column.strip().lower().replace(" ", "_").replace("-", "_")
    if name in synthetic.MAKERS:
        return name
    return next((maker for pattern, maker in _BY_NAME if re.fullmatch(pattern, name)), "answer")


#: How Python says that a value is of another kind than code expects.
_OF_ANOTHER_KIND = re.compile(
    r"'(?:str|int|float|bool|list|dict|NoneType)' object|indices must be|can only (?:concatenate|join)|"
    r"(?:not enough|too many) values to unpack|unhashable type|expected str|sequence item|invalid literal for|not in list"
)


#: Packages by which a program's own code is called for each row.
_BY_ROW = ("datasets", "pyarrow", "multiprocess", "dill", "pandas")


def does_not_suit(error: BaseException) -> bool:
    """Whether an error is of a kind that rows make of which code expects something else, raised by the program itself. One
    that a library raises may be a release's."""
    lacks = isinstance(error, (KeyError, IndexError))
    kind = isinstance(error, (TypeError, AttributeError, ValueError)) and _OF_ANOTHER_KIND.search(str(error))
    return bool(lacks or kind) and is_in_the_program(error, through=_BY_ROW)
