"""A data set without rows, as the folder that it reads is not there, or empty: a program lists it, and finds nothing.

torch's samplers and joined data sets refuse it in words that name no folder, so the folder is looked for among the variables
of the functions in which the program failed, and the attributes of its data set.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator

from vgpu.json_tables import decoded_texts, table_beside

#: torch's words, of ``RandomSampler`` and ``ConcatDataset``; then what Python, torch, NumPy and pandas say of a list of
#: nothing that a program counts on.
_WITHOUT_ROWS = re.compile("|".join(decoded_texts(table_beside(__file__)["without_rows"])))

#: Programs' own words: ``No bin files found in data/TinyStories_all_data``.
_NO_FILES = re.compile(
    r"\b[Nn]o (?:[\w.*]+ ){0,3}(?:files?|images?|shards?)(?: were)? found (?:in|at|under) [`'\"]?([^\s`'\",]+)"
)

#: Names of what a program reads, and of what it writes.
_READ = re.compile(r"dir|root|path|folder|data|imgs|images", re.IGNORECASE)
_WRITTEN = re.compile(r"out|save|log|ckpt|checkpoint|result|exp|cache|tmp|model|weight|resume|tokenizer", re.IGNORECASE)

#: Values that programs give to a path which they do not use.
_NONE = ("none", "null", "false")

_MOST_VALUES = 5_000
_MOST_OF_A_LIST = 8


def folder_without_data(error: BaseException) -> str:
    """Return the folder, absent or empty, from which a program that failed for want of rows reads them; empty for another
    error, or if none is found."""
    if (named := _NO_FILES.search(str(error))) is not None:
        path = named[1].rstrip(".:;")
        return path if _is_without_files(path) else ""
    if not _WITHOUT_ROWS.search(str(error)):
        return ""
    for count, (name, value) in enumerate(_local_values(error)):
        if count > _MOST_VALUES:
            break
        if isinstance(value, (str, os.PathLike)) and _READ.search(name) and not _WRITTEN.search(name):
            path = os.fspath(value)
            if isinstance(path, str) and _is_without_files(path):
                return path
    return ""


def _local_values(error: BaseException) -> Iterator[tuple[str, object]]:
    """Yield (name, value) of the functions in which an error was raised, the innermost first, and of their objects."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for name, value in list(frame.f_locals.items()):
            yield from _each(name, value)
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict) and not isinstance(value, type) and not hasattr(value, "__file__"):
                for label, one in list(attributes.items()):
                    yield from _each(label, one)


def _each(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield a value, or those of a list of several: ``--train_data a b``."""
    if isinstance(value, (list, tuple)):
        yield from ((name, one) for one in value[:_MOST_OF_A_LIST])
    else:
        yield name, value


def _is_without_files(path: str) -> bool:
    if not path or "://" in path or "\n" in path or path.lower() in _NONE:
        return False
    try:
        with os.scandir(os.path.expanduser(path)) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
