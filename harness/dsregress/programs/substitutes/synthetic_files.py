"""Files of a program's own that are not on this machine: rows, texts or tokens in the format in which its code reads them,
files that stand for weights (`absent_weights`), and folders of models by whose name a known one is meant (`local_weights`).

A program that does not find such a file ends. The file is noted in the folder of the run, and the cell is retried with it
in its place (`has_new_file`), as `substitutes.more_columns` does with columns. So code that looks whether the file is there,
and any reader, finds it. Rows have a column of each common name, and those that `more_columns` added.
"""

from __future__ import annotations

import array
import contextlib
import csv
import io
import json
import linecache
import os
import random
import re
import tempfile
import traceback
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from dsregress.probe.border.untrusted import read_regular
from dsregress.programs.substitutes import more_columns, synthetic_rows
from dsregress.programs.world.resource_errors import innermost_place
from skeletons.hub_names import known_model_of_folder
from vgpu import isolation
from vgpu.json_tables import decoded_text, table_beside
from vgpu.whole_files import write_whole

#: How often a cell is retried.
_MOST = 12

#: File in the folder of a run: the path and the format of a file that a rank did not find.
_NOTE = "file-that-is-missing"

#: Folder, beside a made-up file, of the images and sounds that its rows name.
_MEDIA = "made-up"

#: Lines before and after the statement that reads a file, in which its format is looked for.
_NEAR = 12

#: Names of settings, of a model's files and of what a program writes.
_NO_DATA = re.compile(
    "config|setting|param|args|ds_|zero|vocab|merges|token|special|index|state|meta|cache|log|result|metr"
)
_OTHER_SPLIT = re.compile("val|test|dev")

#: Suffix -> what reads such a file, from ``synthetic_files.json``.
_READERS = {suffix: re.compile(decoded_text(pattern)) for suffix, pattern in table_beside(__file__).items()}
_LINE_BY_LINE = re.compile(r"json\.loads\(|jsonlines|lines\s*=\s*True")
_WHOLE = re.compile(r"json\.load\(")
_DTYPE = re.compile(r"\b(u?int(?:8|16|32|64))\b")

#: Type codes of `array`.
_CODES = {"uint8": "B", "uint16": "H", "uint32": "I", "int32": "i", "int64": "q"}

#: Tokens of a file of them; a vocabulary of characters has as many ids.
_TOKENS, _LARGEST_ID = 1 << 20, 63

#: The form of a file of weights, the suffixes of such files, and what reads them.
WEIGHTS = "weights"
_OF_WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".tar")
_LOADS = re.compile(r"\btorch\.load\(|\bload_file\(|\bload_state_dict\(")

#: Files of a model that a skeleton has too.
OF_A_SKELETON = re.compile(
    r"(generation_)?config\.json|tokenizer.*\.(json|model)|vocab\.json|merges\.txt|model.*\.safetensors.*"
)

#: The form of a folder of a model is this, and the name of the known one.
MODEL = "model "

_files: dict[str, str] = {}


def made_files() -> Sequence[str]:
    """Return the names of the data files that are made up."""
    return tuple(os.path.basename(path) for path, form in _files.items() if not form.startswith((WEIGHTS, MODEL)))


def absent_models() -> dict[str, str]:
    """Return the known models whose skeletons take the place of folders that are not here, by the folders' paths."""
    return {path: form.removeprefix(MODEL) for path, form in _files.items() if form.startswith(MODEL)}


def folder_of_model(path: str, run: Path) -> tuple[str, str] | None:
    """Return the folder of a model that a missing path is, or one of whose files it is, and its form; None if no known model
    has its name, or if what is written there would stay."""
    folders = (path, os.path.dirname(path)) if OF_A_SKELETON.fullmatch(os.path.basename(path)) else (path,)
    for folder in folders:
        name = known_model_of_folder(os.path.basename(folder))
        if name is not None and not os.path.exists(folder) and _stays_in_the_run(folder, run):
            return folder, f"{MODEL}{name}"
    return None


def stands_for_weights(path: str | os.PathLike[str]) -> bool:
    """Return True if a file is made up in place of weights."""
    return _files.get(os.path.abspath(path)) == WEIGHTS


def is_of_weights(name: str) -> bool:
    """Return True for the name of a file of weights."""
    return name.lower().endswith(_OF_WEIGHTS)


def file_of_weights(name: str) -> str:
    """Return the path of a new file, of this name, that stands for weights. It is discarded with the run."""
    file = Path(tempfile.mkdtemp(), os.path.basename(name))
    _files[str(file)] = WEIGHTS
    write_whole(file, _content(file, WEIGHTS))
    return str(file)


def format_of(path: str, error: BaseException, run: Path) -> str | None:
    """Return the format in which a program reads a missing file of its own; None if it cannot be seen, or if what is
    written there would stay."""
    name, suffix = os.path.basename(path), os.path.splitext(path)[1].lower()
    place = innermost_place(frame for frame in reversed(list(_frames(error))))
    if not _stays_in_the_run(path, run) or place is None:
        return None
    near = _source_around(*place)
    if is_of_weights(name) and _LOADS.search(near):
        return WEIGHTS
    if suffix not in _READERS or _NO_DATA.search(name.lower()):
        return None
    if not _READERS[suffix].search(near):
        near = "".join(linecache.getlines(place[0])) if _is_raised_at(error, place[0]) else ""
        if not _READERS[suffix].search(near):
            return None
    if suffix == ".json":
        return "lines" if _LINE_BY_LINE.search(near) and not _WHOLE.search(near) else "list"
    if suffix == ".bin":
        dtype = _DTYPE.search(near)
        return dtype[1] if dtype is not None and dtype[1] in _CODES else None
    return {".csv": "csv", ".tsv": "tsv", ".txt": "text"}.get(suffix, "lines")


def note_file(run: Path, path: str, form: str) -> None:
    """Write down the file that the program did not find. Called by a rank as it ends."""
    write_whole(run / _NOTE, json.dumps([os.path.abspath(path), form]))


def has_new_file(run: Path) -> bool:
    """Add the noted file; return True if the cell should be retried with it. Called by the cell's process after its ranks
    have ended."""
    try:
        path, form = json.loads(read_regular(run / _NOTE, 10_000))
    except (OSError, ValueError):
        return False
    (run / _NOTE).unlink()
    if path in _files or len(_files) >= _MOST:
        return False
    _files[path] = form
    return True


def write_files(run: Path) -> None:
    """Write the added files that are not there. Called by a rank that works in the folder of its run."""
    for path, form in _files.items():
        file = Path(path)
        if not form.startswith(MODEL) and not file.exists() and _stays_in_the_run(path, run):
            with contextlib.suppress(PermissionError):  # of a folder that is another user's: the file stays missing
                file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, _content(file, form))


def _stays_in_the_run(path: str, run: Path) -> bool:
    """Return True if a file that a rank writes is discarded with its run."""
    inside = os.path.abspath(path).startswith(os.path.realpath(run) + os.sep)
    return inside or isolation.kind_of(run) == isolation.VIEW


def _frames(error: BaseException) -> list[tuple[str, int]]:
    return [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]


def _source_around(file: str, line: int) -> str:
    return "".join(linecache.getlines(file)[max(0, line - 1 - _NEAR) : line + _NEAR])


def _is_raised_at(error: BaseException, file: str) -> bool:
    """Return True if the program's own code raised the error, as after a look at ``os.path.exists``."""
    frames = _frames(error)
    return bool(frames) and frames[-1][0] == file


def _content(file: Path, form: str) -> bytes:
    if form == WEIGHTS:
        return b"made up: the weights are not here\n"
    if form in _CODES:
        draw = random.Random(zlib.crc32(file.name.encode()))
        ids = array.array(_CODES[form], (draw.randint(0, _LARGEST_ID) for _ in range(1 << 14)))
        return ids.tobytes() * (_TOKENS >> 14)
    split = "test" if _OTHER_SPLIT.search(file.name.lower()) else "train"
    if form == "text":
        return "\n".join(map(str, synthetic_rows.make_table("text:document", file.name, split)["text"])).encode()
    table = synthetic_rows.make_table("", file.name, split, more=more_columns.guessed_columns())
    rows = [dict(zip(table, values)) for values in zip(*table.values())]
    for row in rows:
        row.update({label: _media_path(file, value) for label, value in row.items() if _is_stored(value)})
    if form in ("csv", "tsv"):
        return _separated(rows, "," if form == "csv" else "\t")
    if form == "lines":
        return "\n".join(map(json.dumps, rows)).encode() + b"\n"
    return json.dumps(rows).encode()


def _is_stored(value: object) -> bool:
    """Return True for an image or a sound, which rows of `datasets` hold."""
    return isinstance(value, dict) and isinstance(value.get("bytes"), bytes)


def _media_path(file: Path, value: object) -> str:
    """Write an image or a sound, once, and return its path."""
    assert isinstance(value, dict)
    content = value["bytes"]
    suffix = "png" if content.startswith(b"\x89PNG") else "wav"
    path = file.parent / _MEDIA / f"{zlib.crc32(content):08x}.{suffix}"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write_whole(path, content)
    return str(path)


def _separated(rows: Sequence[Mapping[str, object]], delimiter: str) -> bytes:
    scalars = [label for label, value in rows[0].items() if isinstance(value, (str, int, float))]
    held = io.StringIO()
    writer = csv.DictWriter(held, scalars, extrasaction="ignore", delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return held.getvalue().encode()
