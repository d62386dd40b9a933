"""Compiles a package once for all environments that hold the same wheel of it.

Python writes a module's bytecode into the folder ``__pycache__`` beside it. For torch, transformers and what they import
that takes 10 s of processor time and 60 MB in every new environment. So these folders are links into one that all
environments of a folder share: what the first one compiles, the others read.

Python itself decides whether bytecode is that of a source, by the source's time and size, and writes it whole or not at all.
Files that an environment got from `harness.envs.apart` have a time that no edit has, so one that is edited is compiled anew.

<folder>/bytecode/<distribution>-<version>-<hash of its RECORD>/<folder of the package>/
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.envs.apart import WRITTEN_S, key


def share(packages: Path, records: Mapping[str, Mapping[str, str]], folder: Path) -> None:
    """Make each folder of bytecode in ``packages`` a link into ``folder``, for the distributions in ``records``.

    ``records`` is distribution -> file -> hash, by `harness.envs.inside.records`. Folders that several distributions install
    into, or that hold a file of another time, stay their environment's own. Raises OSError.
    """
    modules = {name: [file for file in record if file.endswith(".py")] for name, record in records.items()}
    folders = {name: {file.rpartition("/")[0] for file in files} for name, files in modules.items()}
    owners = Counter(inner for inners in folders.values() for inner in inners)
    for name, inners in folders.items():
        kept = folder / key(name, records[name])
        for inner in inners - _of_another_time(packages, modules[name]):
            if inner and owners[inner] == 1:
                os.makedirs(kept / inner, exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.symlink(kept / inner, packages / inner / "__pycache__")


def _of_another_time(packages: Path, files: Iterable[str]) -> set[str]:
    """Folders of modules that the installer copied, as it does from a cache on another file system."""
    return {file.rpartition("/")[0] for file in files if os.stat(packages / file).st_mtime != WRITTEN_S}
