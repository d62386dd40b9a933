"""The folder in which a program runs: it looks like the user's, and nothing that is written in it reaches the user's
files.

It is a copy of the folder in which the line is typed, or of its parent if the program reaches beyond the former by
``..`` (`dsregress.probe.surrounding_folder`). Folders are created anew. Code and settings are copied, because a program
finds its folder by them (``Path(__file__).resolve().parent / "out"``), and through a link that would be the user's.
Other files are links to the user's, which the run's shield protects (`vgpu.isolation`). If the shield is not a
view of the run's own, what can be written should not be a link: files are copied as far as that costs little, linked
folders are created anew as well, and any other file is copied when Python opens it for writing.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dsregress.probe.border.surroundings import SKELETONS
from dsregress.probe.launch_line import LaunchLine
from dsregress.probe.program import LARGEST_SOURCE, SOURCES, folder_to_copy
from dsregress.programs.world.written_files import are_read, keep_written_files, put_written_files
from vgpu import isolation
from vgpu.trees import remove_tree

#: Name of a run's own copy.
NAME = "program"

#: Name of the folder for files at absolute paths of a run's line: ``--output_dir /tmp/out``.
_ELSEWHERE = "elsewhere"

#: Name of a run's file with the folder, in the copy, in which the line is typed.
_LAUNCHED = "launched-in"

#: Part of the name of an option whose folder is written: ``--output_dir``, ``--save``, ``trainer.logdir=``.
_OUTPUT = re.compile(r"out|save|log", re.IGNORECASE)

#: Entries beyond which folders are linked as a whole: a data set of a million files need not be mirrored.
_MOST_ENTRIES = 20_000

#: Folders that no program reads as its own.
_LEFT_OUT = frozenset(
    (".git", ".hg", ".svn", "__pycache__", ".dsregress", "node_modules", ".nox", ".tox", ".mypy_cache")
)


#: Caches that the runs of all releases share: variables with their folders.
_SHARED = (SKELETONS, "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")

#: Without a view, files up to this size are copied, until this much is copied in all.
_LARGEST_COPY_BYTES, _MOST_COPIED_BYTES = 64 << 20, 2 << 30

#: linux/fs.h: make a file share the blocks of another one until either is written.
_FICLONE = 0x40049409


def make_workplace(run: Path, source: str, truths: str = "", found: str = "") -> Path:
    """Make the folder in that of a run, from the user's, ``source``, with the shield of the run. Return the copy of
    ``source``. ``truths`` is the store of plain training, ``found`` has files of an earlier run. Raise ValueError if
    ``source`` is empty."""
    if not source:
        raise ValueError("where the program's files are is not known on this machine: give it with --program once more")
    shared = [os.environ.get(name, "") for name in _SHARED]
    in_view = isolation.make_shield(run, [truths, *shared]) == isolation.VIEW
    made = run / NAME
    made.mkdir()
    copied = folder_to_copy(Path(source))
    (run / _LAUNCHED).write_text(os.path.relpath(os.path.realpath(source), copied))
    folder = launch_folder(run)
    folder.mkdir(parents=True, exist_ok=True)
    mirror = _Mirror(in_view=in_view)
    mirror.fill(Path(source), folder)  # first, so that it is complete
    if found:
        put_written_files(Path(found), folder)
    if folder != made:
        mirror.fill(copied, made, but=(os.path.realpath(source), os.path.realpath(run)))
    if in_view:  # a git that writes must not reach the user's repository
        _link_repository(copied, made)
    return folder


def _link_repository(copied: Path, made: Path) -> None:
    """Let git in the copy find the repository of the folder: programs ask it for their commit."""
    folder = copied.resolve()
    repository = next((at / ".git" for at in (folder, *folder.parents) if (at / ".git").exists()), None)
    if repository is None:
        return
    if repository.is_file():  # of a worktree, or of a submodule
        repository = (repository.parent / repository.read_text().removeprefix("gitdir:").strip()).resolve()
    (made / ".git").write_text(f"gitdir: {repository}\n")


def enter_workplace(run: Path) -> None:
    """Deny this process, and all that it starts, any write to the user's files. Call it before the process has threads;
    it cannot be undone."""
    if isolation.join_shield(run).kind != isolation.VIEW:
        _copy_what_is_opened(run)


def keep_files(run: Path, source: str, kept: str) -> None:
    """Keep what the program of a run has written in its folder, made from ``source``. Raise OSError."""
    keep_written_files(launch_folder(run), Path(source), Path(kept))


def goes_on(run: Path, found: str) -> bool | None:
    """Return True if the program of a run has read a state that an earlier run has left in ``found``; None if there is no
    such run, or that is not known."""
    return are_read(Path(found), launch_folder(run)) if found else None


def discard_workplace(run: Path) -> None:
    """Remove all that `make_workplace` made, and what was written there."""
    isolation.discard(run)
    for name in (NAME, _ELSEWHERE):
        remove_tree(run / name)


def launch_folder(run: Path) -> Path:
    """Return the folder, in a run's copy, in which its line is typed."""
    return Path(os.path.normpath(run / NAME / (run / _LAUNCHED).read_text()))


def path_beside(path: str, folder: str) -> str | None:
    """Return the path relative to ``folder`` if both are in the same run's copy; None otherwise."""
    for above in (Path(folder), *Path(folder).parents):
        if above.name == NAME and (above.parent / _LAUNCHED).is_file():
            return os.path.relpath(path, folder) if Path(path).is_relative_to(above) else None
    return None


def as_typed(path: str, run: Path) -> str:
    """Return a path that a program was given as its line has it; see `placed_line`."""
    return path.removeprefix(str(run / _ELSEWHERE))


def placed_line(line: LaunchLine, source: str, run: Path) -> LaunchLine:
    """Return the line of a program that works in the folder of a ``run``.

    Files named by a path out of the user's folder, ``source`` (``--config_file ../zero3.yaml``), stay in place: the copy
    may have no such neighbor. Folders are left as typed, as a program may write in them, except for those of
    ``PYTHONPATH``, which it reads. An absolute path that does not exist yet is an output and is placed in the run's
    folder: a second release would otherwise find the first one's output and resume from it. So is a folder whose option
    says that it is written.
    """
    here = launch_folder(run) if (run / _LAUNCHED).is_file() else run / NAME

    def written(option: str, word: str) -> str:
        name, equals, value = word.rpartition("=")
        if not value.startswith(os.sep):
            return found(word)
        there = next(parent for parent in (Path(value), *Path(value).parents) if os.path.exists(parent))
        if len(there.parts) == 1:  # "/no_think" is no path
            return word
        place = Path(f"{run / _ELSEWHERE}{value}")
        if str(there) != value.rstrip(os.sep):
            os.makedirs(f"{run / _ELSEWHERE}{there}", exist_ok=True)
        elif there.is_dir() and _OUTPUT.search(name or option):
            _mirror_once(there, place, run)
        else:
            return word
        return f"{name}{equals}{place}"

    def found(word: str) -> str:
        name, equals, value = word.rpartition("=")
        if value.startswith("../") and not os.path.exists(os.path.join(here, value)):
            file = os.path.normpath(os.path.join(os.path.realpath(source), value))
            if os.path.isfile(file):
                return f"{name}{equals}{file}"
        return word

    def searched(folder: str) -> str:
        return os.path.normpath(os.path.join(os.path.realpath(source), folder)) if folder.startswith("..") else folder

    return dataclasses.replace(
        line,
        variables=tuple(
            (name, os.pathsep.join(map(searched, value.split(os.pathsep))) if name == "PYTHONPATH" else value)
            for name, value in line.variables
        ),
        program=line.program if line.is_module else found(line.program),
        options=tuple(map(found, line.options)),
        arguments=tuple(map(written, ("", *line.arguments), line.arguments)),
    )


def _mirror_once(source: Path, made: Path, run: Path) -> None:
    """Mirror a folder for all ranks of a run; its one copy appears only once it is complete."""
    made.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=made.parent))
    _Mirror(in_view=isolation.kind_of(run) == isolation.VIEW).fill(source, unfinished)
    try:
        unfinished.rename(made)
    except OSError:
        remove_tree(unfinished)


class _Mirror:
    """Makes folders that look like the user's."""

    def __init__(self, *, in_view: bool) -> None:
        self._in_view = in_view
        self._left_bytes = _MOST_COPIED_BYTES

    def fill(self, source: Path, made: Path, but: Sequence[str] = ()) -> None:
        """Make in ``made`` what is in ``source``, without the folders ``but``."""
        left = [(source, made)]
        entries = 0
        top = f"{os.path.realpath(source)}/"
        seen = {os.path.realpath(source)}
        while left:
            folder, copy = left.pop(0)  # breadth first
            with os.scandir(folder) as found:
                for entry in found:
                    entries += 1
                    target = copy / entry.name
                    if entry.path in but or entry.name in _LEFT_OUT or _is_environment(entry.path):
                        continue
                    if entries <= _MOST_ENTRIES and self._is_made_anew(entry, top, seen):
                        target.mkdir(exist_ok=True)
                        left.append((Path(entry.path), target))
                    elif not self._is_copied(entry, target):
                        target.symlink_to(entry.path)

    def _is_made_anew(self, entry: os.DirEntry[str], top: str, seen: set[str]) -> bool:
        """Return True for a folder whose entries are mirrored: in a view, a link to one may stay a link."""
        if self._in_view or not entry.is_symlink():
            return entry.is_dir(follow_symlinks=False)
        if not os.path.isdir(entry.path) or not os.access(entry.path, os.R_OK | os.X_OK):  # a link may lead to itself
            return False
        real = os.path.realpath(entry.path)
        if real in seen or real.startswith(top) or top.startswith(f"{real}/"):  # it leads into itself
            return False
        seen.add(real)
        return True

    def _is_copied(self, entry: os.DirEntry[str], target: Path) -> bool:
        """Copy a file if it is code or settings or, without a view, if that costs little; return True if it was copied.
        A link of the user's own leads to a folder that the copy is no part of, and stays one in a view."""
        if not os.path.isfile(entry.path) or (self._in_view and entry.is_symlink()):
            return False
        size_bytes = entry.stat().st_size
        try:
            if _is_source(entry, size_bytes):
                shutil.copyfile(entry.path, target)
                return True
            if self._in_view:
                return False
            if _shares_blocks(entry.path, target):
                return True
            if size_bytes > min(_LARGEST_COPY_BYTES, self._left_bytes):
                return False
            self._left_bytes -= size_bytes
            shutil.copyfile(entry.path, target)
        except PermissionError:  # the program finds out, if it reads the file at all
            target.unlink(missing_ok=True)
            return False
        return True


def _is_source(entry: os.DirEntry[str], size_bytes: int) -> bool:
    return os.path.splitext(entry.name)[1] in SOURCES and size_bytes <= LARGEST_SOURCE and not entry.is_symlink()


def _shares_blocks(source: str, made: Path) -> bool:
    """Make a copy that takes no space if the file system supports that (btrfs, XFS); else nothing. Return True if it was
    made."""
    with open(source, "rb") as read, open(made, "wb") as written:
        try:
            fcntl.ioctl(written, _FICLONE, read.fileno())
        except OSError:
            made.unlink()
            return False
    return True


def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))


def _copy_what_is_opened(run: Path) -> None:
    """Replace, from now on, a link in the copy of a run by a separate file when Python opens it for writing."""
    roots = (str(run / NAME) + os.sep, str(run / _ELSEWHERE) + os.sep)

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            path, mode, flags = os.fsdecode(arguments[0]), arguments[1], arguments[2]
            if _writes(mode, flags) and os.path.islink(path) and os.path.abspath(path).startswith(roots):
                _unlink(path, truncated=isinstance(flags, int) and bool(flags & os.O_TRUNC))

    sys.addaudithook(audit)


def _writes(mode: object, flags: object) -> bool:
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC):
        return True
    return isinstance(mode, str) and any(letter in mode for letter in "wax+")


def _unlink(path: str, *, truncated: bool) -> None:
    """Replace a link by a separate file."""
    source = os.path.realpath(path)
    os.unlink(path)
    if not truncated and os.path.isfile(source):
        shutil.copyfile(source, path)
