"""Keeps an environment apart: no process that runs in it, and no user who edits it, changes a file of uv's cache or of
another environment.

uv links an environment's files from its cache, where a file that is written in place changes for every project of the user.
So each file becomes a file of this environment's own, except in packages that are too large for that: those are kept once,
under ``shared/``, read-only, for all environments of this folder. If the file system clones files, every file is a clone.

<folder>/shared/<distribution>-<version>-<hash of its RECORD>/     its files
<folder>/shared/.lock                                              held while packages are added
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from dsregress.envs import inside
from dsregress.system.files import new_folder, write_atomically
from dsregress.system.locks import held
from vgpu.trees import remove_tree

#: Packages that a stack names are copied up to this size: people edit them, and releases patch one another.
#: A stack with DeepSpeed, transformers and PEFT then takes 33 MB more, not 90 MB.
OWN_NAMED_BYTES = 16 * 1024 * 1024

#: All other packages are copied up to this size.
OWN_OTHER_BYTES = 1024 * 1024

_FICLONE = 0x40049409  # ioctl_ficlone(2)
_STAMP = ".stamp"

#: The time of every file that is written here: a rewritten file does not look edited, and bytecode of the same wheel fits in
#: every environment. 2020-01-01: no edit has it.
WRITTEN_S = 1577836800


@dataclasses.dataclass(frozen=True)
class Separated:
    """The content of an environment that is apart."""

    records: dict[str, dict[str, str]]  #: see `dsregress.envs.inside.records`
    stamps: dict[str, str]  #: see `dsregress.envs.inside.stamp`
    shared: tuple[str, ...]  #: the distributions whose files it shares with other environments of ours
    damaged: dict[str, str]  #: distribution -> a file that differs from its wheel


def separate(place: Path, packages: Path, shared: Path, *, framework: str, named: Collection[str]) -> Separated:
    """Replace every file of the environment in ``place`` that uv's cache has as well.

    ``packages`` is its folder of installed packages, ``shared`` the folder that environments share; ``framework`` is always
    copied, ``named`` are the packages that the stack names. Raise OSError.
    """
    records = inside.records(packages)
    common = _common(records)
    of_stack = {inside.normal(name) for name in named}
    clones = _clones(place)
    sharing: list[str] = []
    damaged: dict[str, str] = {}
    kept: set[str] = set()  #: files that are shared between our own environments
    for name, record in records.items():
        limit = OWN_NAMED_BYTES if name in of_stack else OWN_OTHER_BYTES
        is_small = clones or name == inside.normal(framework) or not _is_larger(packages, record, limit)
        if is_small or not all(record.values()):
            wrong = _damaged(packages, record, common)
        else:
            wrong = _share_distribution(shared, packages, name, record, common)
            if not wrong:
                kept |= _link(shared / distribution_key(name, record), packages, record.keys() - common)
                sharing.append(name)
        if wrong or not inside.is_complete(record):
            damaged[name] = wrong or "its RECORD"
    for file in _relative_files(place):
        if file not in kept and os.lstat(file).st_nlink > 1:
            _own(file, clones=clones)
    stamps = {name: inside.stamp(packages, record) for name, record in records.items()}
    return Separated(records=records, stamps=stamps, shared=tuple(sharing), damaged=damaged)


def restore(packages: Path, shared: Path, distribution: str, files: Iterable[str]) -> bool:
    """Replace these files of an environment by the shared ones; return False if those were changed as well. Raise
    OSError."""
    record = inside.records(packages)[distribution]
    entry = shared / distribution_key(distribution, record)
    if not _is_whole(entry, record):
        return False
    _link(entry, packages, files)
    return True


def is_shared(file: Path) -> bool:
    """Return True if a file of an environment that is apart belongs to others as well."""
    try:
        return file.lstat().st_nlink > 1
    except OSError:
        return False


def _share_distribution(
    shared: Path, packages: Path, name: str, record: Mapping[str, str], common: Collection[str]
) -> str:
    """Keep a distribution's files for all environments, unless they are kept already. Return a file that differs from its
    wheel, empty if all match."""
    entry = shared / distribution_key(name, record)
    shared.mkdir(parents=True, exist_ok=True)
    with held(shared / ".lock", lambda: None):
        if _is_whole(entry, record):
            return ""
        _tidy(shared)
        if entry.exists():  # changed; environments may still have its files, which thereby stay shared
            os.rename(entry, tempfile.mkdtemp(prefix=f"{entry.name}.changed-", dir=shared))
        with new_folder(entry) as folder:
            if wrong := _copy(packages, folder, record, common):
                return wrong
            write_atomically(folder / _STAMP, inside.stamp(folder, record).encode())
        return ""


def _copy(packages: Path, folder: Path, record: Mapping[str, str], common: Collection[str]) -> str:
    """Write read-only copies of files. Stop at one that is not as recorded, and return its name."""
    for parent in {file.rpartition("/")[0] for file in record}:
        os.makedirs(f"{folder}/{parent}", exist_ok=True)
    for file, recorded in record.items():
        try:
            with open(f"{packages}/{file}", "rb") as source:
                content, mode = source.read(), os.fstat(source.fileno()).st_mode
        except OSError:
            return file
        if not inside.is_as_recorded(hashlib.sha256(content).hexdigest(), recorded):
            if file in common:
                continue
            return file
        with open(f"{folder}/{file}", "wb") as target:
            target.write(content)
            os.fchmod(target.fileno(), mode & 0o555)
        os.utime(f"{folder}/{file}", (WRITTEN_S, WRITTEN_S))
    return ""


def distribution_key(name: str, record: Mapping[str, str]) -> str:
    """Return the folder name for the files of an installed distribution: ``numpy-2.4.6-f15907e9f084af31``."""
    version = next((file.partition(".dist-info/")[0] for file in record if ".dist-info/" in file), name)
    return f"{version}-{hashlib.sha256(repr(sorted(record.items())).encode()).hexdigest()[:16]}"


def _is_whole(entry: Path, record: Mapping[str, str]) -> bool:
    try:
        return (entry / _STAMP).read_text() == inside.stamp(entry, record)
    except OSError:
        return False


def _tidy(shared: Path) -> None:
    """Remove entries of which no environment has files any more, and those that a killed run left."""
    for entry in shared.iterdir():
        half = entry.name.startswith(".unfinished-")
        if entry.is_dir() and (half or all(os.lstat(file).st_nlink == 1 for file in _relative_files(entry))):
            remove_tree(entry)


def _common(records: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return the files that several distributions install, one over the other, as py-cpuinfo and py-cpuinfo2 do."""
    owners = Counter(file for record in records.values() for file in record)
    return {file for file, count in owners.items() if count > 1}


def _link(entry: Path, packages: Path, files: Iterable[str]) -> set[str]:
    """Put shared files in the place of an environment's. Return their paths."""
    linked = set()
    for file in files:
        target = f"{packages}/{file}"
        try:
            os.link(f"{entry}/{file}", f"{target}.shared")
        except FileNotFoundError:  # one of several distributions', which is not shared
            continue
        os.replace(f"{target}.shared", target)
        linked.add(target)
    return linked


def _own(file: str, *, clones: bool) -> None:
    """Turn a file with several names into a separate file under this name."""
    copy = f"{file}.partial"
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(_remove_file, copy)
        with open(file, "rb") as source, open(copy, "xb") as target:
            if not (clones and _clone(source.fileno(), target.fileno())):
                target.write(source.read())
            os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))
        os.utime(copy, (WRITTEN_S, WRITTEN_S))
        os.replace(copy, file)
        on_failure.pop_all()


def _remove_file(file: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(file)


def _clones(folder: Path) -> bool:
    """Return True if the file system shares the blocks of two files until one is written."""
    with tempfile.NamedTemporaryFile(dir=folder) as source, tempfile.NamedTemporaryFile(dir=folder) as target:
        source.write(b"a")
        source.flush()
        return _clone(source.fileno(), target.fileno())


def _clone(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _damaged(packages: Path, record: Mapping[str, str], common: Collection[str]) -> str:
    """Return a file that differs from its wheel, empty if all match."""
    found = inside.contents(packages, [file for file in record if file not in common])
    return next((file for file, content in found if not inside.is_as_recorded(content, record[file])), "")


def _is_larger(packages: Path, files: Iterable[str], limit: int) -> bool:
    total = 0
    for file in files:
        with contextlib.suppress(OSError):
            total += os.stat(f"{packages}/{file}").st_size
        if total > limit:
            return True
    return False


def _relative_files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield f"{place}/{name}"
