"""Reads bytecode with the interpreter that imports it. Run as a script, with a JSON list of files on stdin.

It prints the place of each file in the list before it is read, as some damage ends an interpreter, and once more if the file
is not bytecode. That of another Python counts as whole: this one compiles it anew by itself.
"""

from __future__ import annotations

import json
import marshal
import sys
from importlib.util import MAGIC_NUMBER


def _is_whole(file: str) -> bool:
    with open(file, "rb") as stream:
        data = stream.read()
    try:
        return data[:4] != MAGIC_NUMBER or hasattr(marshal.loads(data[16:]), "co_code")
    except (EOFError, ValueError, TypeError):  # all that marshal raises
        return False


if __name__ == "__main__":
    for place, file in enumerate(json.load(sys.stdin)):
        print("reads", place, flush=True)  # noqa: T201  (its answer)
        if not _is_whole(file):
            print("damaged", place, flush=True)  # noqa: T201
