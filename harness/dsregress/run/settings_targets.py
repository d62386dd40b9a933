"""The files of a program that its settings name, as Hydra, LightningCLI and `instantiate_from_config` import them:
``_target_: own.data.Module``. Standard library only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dsregress.probe.program_imports import own_files

_TARGET = re.compile(r"^[\s-]*(?:_target_|target|class_path)\s*:\s*[\"']?((?:\w+\.)+\w+)", re.MULTILINE)
_SUFFIXES = (".yaml", ".yml")
_MOST_FILES = 500
_LARGEST = 1 << 20


def files_of_targets(folder: Path, folders: Sequence[str]) -> list[Path]:
    """Return the program's own files, in ``folders``, whose classes the settings below ``folder`` name. A run takes some of
    them; which is decided when it composes its settings."""
    found: dict[Path, None] = {}
    for text in _texts_of_settings(folder):
        for target in _TARGET.findall(text):
            found |= dict.fromkeys(own_files(target.rpartition(".")[0], folders))
    return list(found)


def _texts_of_settings(folder: Path) -> Iterator[str]:
    left = _MOST_FILES
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "site-packages")
        for name in sorted(files):
            if not name.endswith(_SUFFIXES) or left <= 0:
                continue
            left -= 1
            try:
                with open(os.path.join(at, name), encoding="utf-8", errors="replace") as file:
                    yield file.read(_LARGEST)
            except OSError:
                continue
