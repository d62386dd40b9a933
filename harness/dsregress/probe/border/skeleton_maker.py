"""Starts the process that makes a skeleton, in the environment whose transformers names its tensors, and reads its answer.
Standard library only.

The process is `skeletons`. The last line of its stdout is JSON: ``{"files": [{"name", "size_bytes",
"disk_bytes"}]}``, or ``{"error": LINE}``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from skeletons.maker_answer import SkeletonFile, SkeletonRefused

_ROOT = Path(__file__).resolve().parents[3]

#: A model of a hundred layers takes seconds.
_TIMEOUT_S = 900

#: As ``python -m``, without the working folder on the path: it may have a ``dsregress`` or a ``json`` of its own.
_START = (
    "import sys, runpy; sys.path[0] = sys.argv.pop(1); "
    "from dsregress.probe import cuda_wheels; cuda_wheels.import_without_extensions(); "  # transformers imports them
    "runpy.run_module('skeletons', run_name='__main__', alter_sys=True)"
)


class MakerFailed(RuntimeError):
    """The process did not answer; one line that says what it did instead."""


def make_skeleton(
    python: str, what: str, folder: Path, environment: Mapping[str, str], *, tiny: bool, contents: bool
) -> tuple[SkeletonFile, ...]:
    """Make ``folder`` (see `skeletons.make.make_skeleton`) with this interpreter, and return its files. Raise
    SkeletonRefused or MakerFailed."""
    flags = [flag for flag, wanted in (("--tiny", tiny), ("--contents", contents)) if wanted]
    try:
        done = subprocess.run(
            [python, "-B", "-c", _START, str(_ROOT), what, str(folder), *flags],
            env={**environment, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MakerFailed(f"no skeleton was made within {_TIMEOUT_S} s") from None
    except OSError as error:
        raise MakerFailed(f"the interpreter cannot be run: {error.strerror}") from None
    return _read_answer(done)


def _read_answer(done: subprocess.CompletedProcess[str]) -> tuple[SkeletonFile, ...]:
    """Return the files of the answer. Raise SkeletonRefused or MakerFailed."""
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        if "error" not in answer:
            return tuple(
                SkeletonFile(str(file["name"]), int(file["size_bytes"]), int(file["disk_bytes"]))
                for file in answer["files"]
            )
        refusal = str(answer["error"])
    except (IndexError, KeyError, TypeError, ValueError):
        last = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise MakerFailed(f"no skeleton could be made: {last}") from None
    raise SkeletonRefused(refusal)
