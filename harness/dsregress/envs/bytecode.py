"""Compiles a package once for all environments that hold the same wheel of it.

Python writes a module's bytecode into the folder ``__pycache__`` next to it. For torch, transformers and their imports that
takes 10 s of CPU time and 60 MB in every new environment. So these folders are links into one that all environments of a
folder share: the first one compiles, the others read.

Python itself decides, by the source's time and size, whether bytecode belongs to a source, and writes it whole or not at
all. Files that an environment got from `dsregress.envs.apart` have a time that no edit has, so an edited one is
compiled anew. Bytecode that has changed since Python wrote it is found by `dsregress.envs.bytecode_checks`.

<folder>/bytecode/<distribution>-<version>-<hash of its RECORD>/<folder of the package>/
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from dsregress.envs.apart import WRITTEN_S, distribution_key


def share_bytecode(
    packages: Path, records: Mapping[str, Mapping[str, str]], folder: Path, *, excluded: Collection[str]
) -> tuple[str, ...]:
    """Make folders of bytecode in ``packages`` links into ``folder``, for the distributions in ``records``.

    ``records`` is distribution -> file -> hash, by `dsregress.envs.inside.records`, of all that is installed. The folders of
    those ``excluded`` stay the environment's own, as do those whose bytecode could be confused with another wheel's: if a
    module has no recorded hash or another time, or if several distributions install into one folder. Return the names of the
    folders in ``folder`` that were linked. Raise OSError.
    """
    linked = set()
    modules = {name: [file for file in record if file.endswith(".py")] for name, record in records.items()}
    folders = {name: {_bytecode_folder(file) for file in files} for name, files in modules.items()}
    owners = Counter(inner for inners in folders.values() for inner in inners)
    for name in records.keys() - excluded:
        record = records[name]
        kept = folder / distribution_key(name, record)
        own = {_bytecode_folder(file) for file in modules[name] if not _is_certain(packages / file, record[file])}
        for inner in folders[name] - own:
            if inner and owners[inner] == 1:
                linked.add(kept.name)
                os.makedirs(kept / inner, exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.symlink(kept / inner, packages / inner / "__pycache__")
    return tuple(sorted(linked))


def _bytecode_folder(file: str) -> str:
    return file.rpartition("/")[0]


def _is_certain(module: Path, recorded: str) -> bool:
    """Return True if a module's content follows from its distribution's RECORD, and its time is the one that no edit has:
    the installer's own copies, from a cache on another file system, have another."""
    try:
        return recorded.startswith("sha256=") and os.stat(module).st_mtime == WRITTEN_S
    except FileNotFoundError:  # recorded, and not in the wheel
        return False
