"""Columns of synthetic data sets that are in no table: what the program needs, found by running it.

A data set unknown to `substitutes.known_datasets` has a column of each common name. A program that needs another
column or split ends in an error that names it, and so does one that passes a column on to a model without such an argument.
Its name is written into the folder of the run, and the cell is retried with or without it (`has_other_columns`). Both are
kept in the cell's process and thus in every process forked from it.
"""

from __future__ import annotations

import ast
import os
import re
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dsregress.probe.border.untrusted import read_regular
from dsregress.programs.substitutes import known_datasets, synthetic_rows
from dsregress.programs.world.resource_errors import is_in_the_program
from vgpu.error_chain import behind_one_another
from vgpu.json_tables import decoded_text, table_beside
from vgpu.whole_files import write_whole

#: How often a cell is retried. A program that needs more columns than these has rows of a kind that is not synthesized.
_MOST = 12

#: File in the folder of a run: the columns that a rank missed, one a line.
_NOTE = "columns-that-are-missing"

#: Another one: the column that a rank had too much.
_NOTE_OF_SURPLUS = "column-that-is-not-wanted"

_added: dict[str, str] = {}
_splits: list[str] = []
_removed: set[str] = set()

#: A missing key that is a split, as in ``rows["validation"]``, and not a column.
_SPLIT = re.compile(r"(?:train|training|test|val|valid|validation|dev|eval|evaluation)(?:[_.].*)?")


def added_columns() -> Mapping[str, str]:
    """Return the added columns, each with its maker."""
    return dict(_added)


def guessed_columns() -> Mapping[str, str]:
    """Return the columns of an unknown data set, each with its maker."""
    makers = {**synthetic_rows.column_makers(known_datasets.ANY.columns), **_added}
    return {column: maker for column, maker in makers.items() if column not in _removed}


def added_splits() -> Sequence[str]:
    """Return the names of the added splits."""
    return tuple(_splits)


def is_added(name: str) -> bool:
    """Return True if the column or split is already added."""
    return name in _added or name in _splits or name in _removed


def note_columns(folder: Path, columns: Sequence[str]) -> None:
    """Write down the columns that the program missed. Called by a rank as it ends."""
    write_whole(folder / _NOTE, "\n".join(columns))


def note_surplus(folder: Path, column: str) -> None:
    """Write down the column that the program passed on to what does not know it. Called by a rank as it ends."""
    write_whole(folder / _NOTE_OF_SURPLUS, column)


def has_other_columns(folder: Path) -> bool:
    """Add the noted column or split, or remove the noted column; return True if the cell should be retried. Called by the
    cell's process after its ranks have ended."""
    columns = [column for column in _noted(folder / _NOTE).split("\n") if column and not is_added(column)]
    surplus = _noted(folder / _NOTE_OF_SURPLUS)
    if len(_added) + len(_splits) + len(_removed) >= _MOST:
        return False
    if surplus and surplus not in _removed:
        _removed.add(surplus)
        return True
    for column in columns:
        if _SPLIT.fullmatch(column):
            _splits.append(column)
        else:
            _added[column] = maker_of(column)
    return bool(columns)


def _noted(file: Path) -> str:
    """Return what is written down in a file, which is removed; empty if nothing is."""
    try:
        column = read_regular(file, 10_000).decode()
    except (OSError, ValueError):
        return ""
    file.unlink()
    return column


#: The text that follows the missing column's name in errors of `datasets` and pandas.
_OTHERS = re.compile(r"(?:[Cc]urrent|[Aa]vailable) columns|\. (?:Make|Please)")
_QUOTED = re.compile(r"'([^'\n]+)'")
_UNQUOTED = re.compile(r"[Cc]olumn (?:name )?([^'\[\]\n]+?) (?:is )?not in ")

#: How pydantic and a dataclass say that a row lacks fields of theirs.
_LACKS_FIELD = re.compile(r"^(\w+)\n\s+field required", re.IGNORECASE | re.MULTILINE)
_LACKS_ARGUMENTS = re.compile(r"__init__\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.*)")


def missed_column(error: BaseException, sources: Iterable[Path], arguments: Sequence[str]) -> str | None:
    """Return the column whose absence ended a program, if the program names it: in its ``sources``, on its line, or in a
    file of settings given there. None if it ended for another reason or the column is already added."""
    for one in behind_one_another(error):
        for column in _named_in(one):
            if _is_named(column, sources, arguments):
                return None if is_added(column) else column
        fields = [field for field in _fields_lacking(one) if _is_declared(field, sources)]
        if (new := next((field for field in fields if not is_added(field)), None)) is not None:
            return new
    return None


def others_of_its_row(column: str, sources: Iterable[Path]) -> list[str]:
    """Return the further keys that functions of a program read from what they read ``column`` from (``row["images"]``, then
    ``row["texts"]``), and do not set: each would be missed in its turn, at the cost of a run."""
    found: dict[str, None] = {}
    for file in sources:
        try:
            functions = [node for node in ast.walk(ast.parse(_file_text(file))) if isinstance(node, ast.FunctionDef)]
        except (SyntaxError, ValueError, RecursionError):
            continue
        for function in functions:
            read, written = _keys_of_names(function)
            for name, keys in read.items():
                if column in keys:
                    found |= dict.fromkeys(key for key in keys if key not in written[name])
    makers = guessed_columns()
    return [key for key in found if key not in {column, *makers, *_MADE_BY_A_PROGRAM} and not is_added(key)]


def _keys_of_names(function: ast.FunctionDef) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """Return the texts that index each name in a function: where it is read, and where it is written."""
    read: dict[str, list[str]] = defaultdict(list)
    written: dict[str, list[str]] = defaultdict(list)
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            of_its_use = read if isinstance(node.ctx, ast.Load) else written
            of_its_use[node.value.id].append(node.slice.value)
    return read, written


#: How Python says that a model has no such argument, and a tokenizer that it makes no tensor of a column.
_SURPLUS = re.compile(
    r"got an unexpected keyword argument '(\w+)'|features \(`(\w+)` in this case\) have excessive nesting"
)


#: How torch's loader says that it makes no batch of lists; it does not name their column.
_UNEQUAL_LISTS = "each element in list of batch should be of equal size"


def surplus_column(error: BaseException, sources: Iterable[Path], arguments: Sequence[str]) -> str | None:
    """Return a guessed column that ended a program because it was passed on with its row, if the program names it
    nowhere; None if it ended for another reason."""
    guessed = guessed_columns()
    for one in behind_one_another(error):
        for column in _passed_on(one):
            if column in guessed and not _is_named(column, sources, arguments):
                return column
    return None


def _passed_on(error: BaseException) -> list[str]:
    """Return the columns that a row may have too much, as an error says."""
    if isinstance(error, (TypeError, ValueError)):
        found = _SURPLUS.search(str(error))
        return [found[1] or found[2]] if found is not None else []
    if isinstance(error, RuntimeError) and _UNEQUAL_LISTS in str(error):
        return [column for column, maker in guessed_columns().items() if synthetic_rows.holds_lists(maker)]
    return []


def _named_in(error: BaseException) -> list[str]:
    """Return the names that an error reports as missing and that may be columns."""
    said = str(error.args[0]) if error.args else ""
    is_key = isinstance(error, KeyError)
    if not is_key and not (isinstance(error, ValueError) and "column" in said.lower()):
        return []
    first = _OTHERS.split(said)[0]
    return [*([said] if is_key else []), *_QUOTED.findall(first), *_UNQUOTED.findall(first)]


def _fields_lacking(error: BaseException) -> list[str]:
    """Return the fields that a class of the program's, of which it makes its rows, does not get."""
    if type(error).__name__ == "ValidationError":
        return _LACKS_FIELD.findall(str(error))
    found = _LACKS_ARGUMENTS.search(str(error)) if isinstance(error, TypeError) else None
    return _QUOTED.findall(found[1]) if found is not None else []


def _is_declared(field: str, sources: Iterable[Path]) -> bool:
    """Return True if the body of a class in these files declares a field."""
    declared = re.compile(rf"^[ \t]+{re.escape(field)}[ \t]*:", re.MULTILINE)
    return field not in _MADE_BY_A_PROGRAM and any(declared.search(_file_text(file)) for file in sources)


#: Keys that a program or a library adds to rows, so that a release may have lost them; and what a model returns.
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
    return any(spelled.search(_file_text(file)) for file in settings) or any(
        quoted.search(_file_text(file)) for file in sources
    )


def _file_text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


#: A pattern of columns' names -> the maker of their content; the first match counts.
_BY_NAME = {pattern: decoded_text(maker) for pattern, maker in table_beside(__file__).items()}


def maker_of(column: str) -> str:
    """Return the maker of `synthetic_rows` with which a column is filled."""
    name = column.strip().lower().replace(" ", "_").replace("-", "_")
    if name in synthetic_rows.MAKERS:
        return name
    return next((maker for pattern, maker in _BY_NAME.items() if re.fullmatch(pattern, name)), "answer")


#: Python's messages for a value of another kind than code expects.
_OF_ANOTHER_KIND = re.compile(
    r"'(?:str|int|float|bool|list|dict|NoneType)' object|indices must be|can only (?:concatenate|join)|"
    r"(?:not enough|too many) values to unpack|unhashable type|expected str|sequence item|invalid literal for|not in list"
)


#: Packages that call the program's own code for each row.
_BY_ROW = ("datasets", "pyarrow", "multiprocess", "dill", "pandas")


#: Files of transformers and torch that make a batch of rows.
_OF_COLLATORS = ("data_collator.py", "collate.py")


def _puts_rows_together(error: BaseException) -> bool:
    """Return True if an error arose in code that makes a batch of rows, where it is no lack of memory."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    kinds = (TypeError, ValueError, KeyError, IndexError, RuntimeError)
    return isinstance(error, kinds) and bool(frames) and os.path.basename(frames[-1]) in _OF_COLLATORS


def does_not_suit(error: BaseException) -> bool:
    """Return True if the program itself raised an error of the kind that results from rows that differ from what code
    expects, or of which it keeps none, or if rows could not be put into a batch. Another error that a library raises may be
    a release's."""
    if _puts_rows_together(error):
        return True
    lacks = isinstance(error, (KeyError, IndexError, UnboundLocalError, ZeroDivisionError))
    kind = isinstance(error, (TypeError, AttributeError, ValueError)) and _OF_ANOTHER_KIND.search(str(error))
    return bool(lacks or kind) and is_in_the_program(error, through=_BY_ROW)
