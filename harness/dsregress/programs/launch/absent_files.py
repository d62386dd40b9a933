"""Missing files of the program itself: its data, a checkpoint, a configuration. They say nothing about a release.

Programs and libraries open them and raise an error that names what is missing: Python's own error, or one in a library's
words (``Expected a string path to an existing deepspeed config``). Not every such error is about one of the program's
files: a release may look for one of its own, or for one that it should have written. So paths of packages, of the system
and of folders that this run made do not count, and neither do commands to start.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dsregress.probe.border import faults
from dsregress.probe.border.callees import value_in_frame
from dsregress.programs.substitutes import synthetic_files
from dsregress.programs.world import workplace
from dsregress.programs.world.resource_errors import LIBRARIES, place_of, statement_of
from skeletons.hub_names import known_model_of_folder
from vgpu.error_chain import behind_one_another

_SYSTEM = ("/proc/", "/sys/", "/dev/", "/usr/", "/etc/", "/bin/", "/sbin/", "/lib/", "/lib64/")

#: How libraries report that a path does not exist, and how they quote it.
_ABSENCE = re.compile(
    r"no such|exist|(?:not|n't) (?:be )?(?:find|found)|not a (?:file|directory|folder)|unable to find", re.IGNORECASE
)
_WRITTEN = re.compile(r"(?<!\w)'([^'\n]+)'|\"([^\"\n]+)\"|: ([^\s:'\"]+)$", re.MULTILINE)

#: Endings by which a word of an error is recognized as a file.
_FILES = (
    *(".json", ".jsonl", ".yaml", ".yml", ".toml", ".txt", ".csv", ".tsv", ".parquet", ".arrow", ".npy", ".model"),
    *(".bin", ".pt", ".pth", ".ckpt", ".safetensors"),
)


#: What an author leaves for a reader to fill in: ``$replace_this_with_your_folder``, ``/path/to/data``, ``<data folder>``.
_PLACEHOLDER = re.compile(r"\$\{?\w+\}?|<[^/<>]+>|/?\bpath/to/[^/]+|\byour[-_][^/]+", re.IGNORECASE)

#: Functions of ``os.path``, and methods of ``Path``, that ask for a file.
_ASKS_FOR_A_FILE = ("exists", "isfile", "isdir", "is_file", "is_dir")

#: Options that name what a program writes, or what it reads only if that is there.
_OF_WHAT_IS_WRITTEN = re.compile(r"out|save|log|result|resume|cache|dump|export|write", re.IGNORECASE)

#: Characters of a line: what it says to do must not be cut off.
_ROOM = faults.INSTRUCTION_LENGTH - len("CannotRun: ")

_MAKE_UP = "give --synthetic-data for made-up rows"
_KEEP_INITIAL = "give --synthetic-data to keep initial weights"

#: A statement that writes a file.
_WRITING = re.compile(r"""\bopen\(.*["'][wax]b?\+?["']|\.write_(?:text|bytes)\(""")


class AbsentFile(NamedTuple):
    """A file or folder of a program's own that is not there."""

    path: str
    line: str  #: that names it and says what to do
    form: str | None  #: its format, if its content can be made up


def absent_file(error: BaseException, arguments: Sequence[str], source: str, run: Path) -> AbsentFile | None:
    """Return the program's own file or folder whose absence ended the program; None if it ended for another reason.

    ``arguments`` are the program's; ``source`` is the user's folder, of which the working folder is a copy, in that of the
    ``run``.
    """
    for one in behind_one_another(error):
        for path in _missing_paths(one, arguments):
            whole = os.path.abspath(os.path.expanduser(path))
            if not os.path.exists(whole) and _is_the_programs(whole, source):
                if _WRITING.search(statement_of(one)) and not os.path.exists(folder := os.path.dirname(whole)):
                    makes = f"make it, as the program writes {os.path.basename(whole)} there"
                    return AbsentFile(whole, f"{place_of(error)}: {_said(path, folder, makes)}", None)
                form = synthetic_files.format_of(whole, one, run)
                advice = _advice(one)
                if form is None and (model := synthetic_files.folder_of_model(whole, run)) is not None:
                    folder, form = model
                    make = f"give --synthetic-data for the shapes of {form.removeprefix(synthetic_files.MODEL)}"
                    line = f"{place_of(error)}: {_said(path, folder, f'{make}, or put it there')}"
                    return AbsentFile(folder, line, form)
                if form is not None:
                    make = _KEEP_INITIAL if form == synthetic_files.WEIGHTS else _MAKE_UP
                    advice = f"{make}, or {advice or 'put it there'}"
                return AbsentFile(whole, _line_about(place_of(error), path, whole, advice, arguments), form)
    return None


def undownloaded_file(path: str, error: BaseException, run: Path) -> AbsentFile:
    """Return the file of a program's own in which it would keep what it cannot download."""
    whole = os.path.abspath(os.path.expanduser(path))
    form = synthetic_files.format_of(whole, error, run)
    advice = "put it there" if form is None else f"{_MAKE_UP}, or put it there"
    return AbsentFile(whole, _line_about(place_of(error), path, whole, advice, ()), form)


def _line_about(place: str, path: str, whole: str, advice: str, arguments: Sequence[str]) -> str:
    """Return the line about a missing path, with as many of the others as it has room for."""
    others = _others_of_the_line(arguments, whole)
    while len(line := f"{place}: {_said(path, whole, advice, others)}") > _ROOM and others:
        others.pop()
    return line


def _others_of_the_line(arguments: Sequence[str], found: str) -> list[str]:
    """Return the further files of the program's own folder that its options name and that are not there, so that each does
    not take a run. What it writes is none of them."""
    others: dict[str, None] = {}
    for before, word in zip(["", *arguments], arguments, strict=False):
        name, equals, value = word.rpartition("=")
        option = name if equals else before if before.startswith("-") else ""
        whole = os.path.abspath(os.path.expanduser(value))
        is_read = option and not _OF_WHAT_IS_WRITTEN.search(option) and value.endswith(_FILES) and "://" not in value
        if is_read and whole != found and not os.path.exists(whole) and (inside := _in_the_copy(whole)) is not None:
            others[inside] = None
    return list(others)


def without_files(path: str, error: BaseException, source: str) -> str:
    """Return the line about a folder of the program's own that has no files, and without which it failed; empty for another
    folder. ``source`` is as in `absent_file`."""
    whole = os.path.abspath(os.path.expanduser(path))
    if not _is_the_programs(whole, source):
        return ""
    if os.path.isdir(whole):
        return f"{place_of(error)}: there are no files in {_in_the_copy(whole) or path}: put its data there"
    return f"{place_of(error)}: {_said(path, whole, '')}"


def _missing_paths(error: BaseException, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the paths that an error reports as missing."""
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, (str, bytes)):
        if not _starts_a_process(error):
            yield os.fsdecode(error.filename)
        return
    if isinstance(error, AssertionError):
        yield from _asserted_paths(error)
    said = str(error)
    if (
        type(error).__name__ == "HFValidationError"
    ):  # what is no folder may be a name on the hub, and this cannot be one
        yield from re.findall(r": '([^']+)'", said)
    if not _ABSENCE.search(said):
        return
    words = re.split(r"[\s'\"`,:()\[\]]+", said)
    given = [value for word in arguments for value in (word, word.partition("=")[2]) if value and value in words]
    plain = [word for word in words if os.sep in word and word.endswith(_FILES)]
    for word in [*given, *(next(filter(None, found.groups())) for found in _WRITTEN.finditer(said)), *plain]:
        is_a_path = os.sep in word and (word in given or isinstance(error, FileNotFoundError))
        if "://" not in word and (is_a_path or word.endswith(_FILES)):
            yield word


def _asserted_paths(error: AssertionError) -> Iterator[str]:
    """Yield the paths whose existence a failed assertion asks for: ``assert os.path.exists(config.statistics)``."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return
    frame, line = frames[-1]
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assert) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        for call in ast.walk(node.test):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in _ASKS_FOR_A_FILE
            ):
                path = value_in_frame(call.args[0] if call.args else call.func.value, frame)
                if isinstance(path, (str, os.PathLike)):
                    yield os.fspath(path)


def _starts_a_process(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "subprocess":
            return True
        trace = trace.tb_next
    return False


def _is_the_programs(path: str, source: str) -> bool:
    if path.startswith((*_SYSTEM, *LIBRARIES, sys.prefix + os.sep)):
        return False
    if (inside := _in_the_copy(path)) is None:
        return True
    folder = os.path.dirname(inside)
    return not os.path.isdir(folder) or os.path.isdir(os.path.join(source, folder))


def _in_the_copy(path: str) -> str | None:
    """Return the path relative to the folder in which the line is typed, or as a path next to that folder (see
    `workplace.path_beside`); None if it is in neither."""
    folder = os.path.realpath(os.getcwd())
    return _inside(path, folder) or workplace.path_beside(_whole(path), folder)


def _inside(path: str, folder: str) -> str | None:
    """Return the path relative to the folder; None if it is outside."""
    whole, folder = _whole(path), os.path.realpath(folder) + os.sep
    return whole.removeprefix(folder) if whole.startswith(folder) else None


def _whole(path: str) -> str:
    """Return the absolute path with links resolved in all but its last part."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _advice(error: BaseException) -> str:
    """Return the program's own message about a missing file, if it is more than "no such file"; else ""."""
    if isinstance(error, FileNotFoundError) and error.errno and error.strerror != os.strerror(error.errno):
        return str(error.strerror)
    return ""


def _said(path: str, whole: str, advice: str, others: Sequence[str] = ()) -> str:
    """Return what is said of a missing path, and of ``others`` of the folder in which the program is launched."""
    if (placeholder := _PLACEHOLDER.search(path)) is not None:
        return f"{placeholder[0]!r} stands for a path of yours: write it into the line or the settings that have it"
    if (inside := _in_the_copy(whole)) is not None:
        folder, name = os.path.split(inside)
        model = (
            known_model_of_folder(os.path.basename(folder)) if synthetic_files.OF_A_SKELETON.fullmatch(name) else None
        )
        if model and not advice:
            return f"there is no {inside}: `skeleton {model} --out {folder}` makes one"
        return f"there is no {' or '.join((inside, *others))} where the program is launched: " + (
            advice or ("put them there" if others else "put it there, or launch it in the folder that has it")
        )
    if (inside := _inside(whole, os.path.expanduser("~"))) is not None:
        return (
            f"there is no ~/{inside}, as a program's home is empty here: {advice or 'give the file by its whole path'}"
        )
    typed = workplace.as_typed(path, Path(os.path.realpath(os.getcwd())).parent)
    return f"there is no {typed} on this machine: {advice or 'put it there, or give a path that is here'}"
