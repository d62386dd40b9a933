"""A view of the whole file system for the processes of one run: a mount namespace of overlays (Linux 5.11 and later, no
privilege needed).

Whatever they write, truncate, rename, remove, chmod or link, in any language and through any link, is done to the view:
the machine's files stay unchanged, and the changes are kept in a folder of the run. Two runs do not see each other's
changes. Only the folders that are named as writable are the machine's own.

A process makes the namespaces and ends; handles on them, which its parent has opened, keep them. Processes enter them by
`join_view`. The user is the same as outside.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from vgpu.isolation import layout, syscalls
from vgpu.isolation.layout import How
from vgpu.trees import remove_tree

#: The place of the machine's own root in the view until it is detached.
_OLD = "/.machine"

#: Options of overlayfs when mounted in a user namespace.
_OPTIONS = "lowerdir={lower},upperdir={upper},workdir={work},userxattr,volatile"

_ALL_IDS = "0 0 4294967295"


def make_view(folder: Path, writable: Sequence[str]) -> list[str]:
    """Make a view and return paths of its namespaces for `join_view`, valid as long as this process exists.

    Changes are kept below ``folder``; if its file system cannot do that (NFS, an overlay), in memory. Raise OSError if
    the machine allows no such view.
    """
    asking, asked = os.pipe()
    mapped, mapping = os.pipe()
    said, saying = os.pipe()
    maker = os.fork()
    if not maker:
        for handle in (asking, mapping, said):
            os.close(handle)
        _make_and_say(folder, writable, asked, mapped, saying)
    for handle in (asked, mapped, saying):
        os.close(handle)
    try:
        if os.read(asking, 1):
            _map_ids(maker)
            os.write(mapping, b".")
        problem = os.read(said, 4096).decode(errors="replace")
        if problem != ".":
            raise OSError(problem or "the view was not made")
        return [
            f"/proc/{os.getpid()}/fd/{os.open(f'/proc/{maker}/ns/{kind}', os.O_RDONLY | os.O_CLOEXEC)}"
            for kind in ("user", "mnt")
        ]
    finally:
        for handle in (asking, mapping, said):
            os.close(handle)
        os.waitpid(maker, 0)


def _make_and_say(folder: Path, writable: Sequence[str], asked: int, mapped: int, saying: int) -> None:
    """Make the namespaces in a process of its own, report the result, and stay until the parent has opened them."""
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        os.write(asked, b".")
        if os.read(mapped, 1):
            syscalls.unshare(syscalls.CLONE_NEWNS)
            _mount_all(folder, writable)
            os.write(saying, b".")
            os.read(mapped, 1)  # until the parent closes it
    except OSError as error:  # the parent waits for either pipe, and this process ends
        os.write(saying, str(error).encode())
    finally:
        os._exit(0)


def _map_ids(process: int) -> None:
    """Let a process of a new user namespace keep its user: map all ids if this process may, else its own."""
    about = Path(f"/proc/{process}")
    try:
        (about / "uid_map").write_text(_ALL_IDS)
    except OSError:
        (about / "setgroups").write_text("deny")
        (about / "uid_map").write_text(f"{os.geteuid()} {os.geteuid()} 1")
        (about / "gid_map").write_text(f"{os.getegid()} {os.getegid()} 1")
    else:
        (about / "gid_map").write_text(_ALL_IDS)


def _mount_all(folder: Path, writable: Sequence[str]) -> None:
    """Mount the view and make it the root of this namespace. Raise OSError if the kernel refuses."""
    syscalls.mount("", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)  # hides the machine's later mounts
    root = folder / "root"
    root.mkdir(parents=True)
    changes = folder / "files"
    changes.mkdir()
    steps = layout.plan_view(layout.read_mounts(Path("/proc/self/mountinfo").read_text()))
    if not _keeps_overlays(changes):
        syscalls.mount("tmpfs", str(changes), "tmpfs")
    syscalls.mount("tmpfs", str(root), "tmpfs", options="mode=755")
    for number, step in enumerate(steps):
        try:
            _make_step(step, f"{root}{step.path}", changes / str(number))
        except OSError:
            if os.path.lexists(step.path):
                raise
            # It was removed meanwhile, as temporary files are.
    if os.path.isdir(f"{root}/dev/shm"):
        syscalls.mount("tmpfs", f"{root}/dev/shm", "tmpfs", options="mode=1777")
    for kept in dict.fromkeys((*writable, str(changes))):
        target = f"{root}{os.path.realpath(kept)}"
        os.makedirs(target, exist_ok=True)
        syscalls.mount(os.path.realpath(kept), target, flags=syscalls.MS_BIND | syscalls.MS_REC)
    os.mkdir(f"{root}{_OLD}")
    syscalls.pivot_root(str(root), f"{root}{_OLD}")
    os.chdir("/")
    syscalls.unmount(_OLD)
    os.rmdir(_OLD)


def _make_step(step: layout.Step, target: str, changes: Path) -> None:
    if step.how is How.LINK:
        os.symlink(os.readlink(step.path), target)
        return
    if os.path.isdir(step.path):
        os.mkdir(target)
        shutil.copymode(step.path, target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    if step.how is How.SHARED:
        syscalls.mount(step.path, target, flags=syscalls.MS_BIND | syscalls.MS_REC)
    elif step.how is How.OVERLAY:
        _mount_overlay(step.path, target, changes)
    elif step.how is How.READ_ONLY:
        _mount_read_only(step.path, target)


def _mount_read_only(path: str, target: str) -> None:
    syscalls.mount(path, target, flags=syscalls.MS_BIND | syscalls.MS_REC)
    syscalls.make_read_only(target)


def _mount_overlay(path: str, target: str, changes: Path) -> None:
    """Show ``path`` at ``target`` with separate changes; read-only if its file system allows no overlays."""
    upper, work = changes / "files", changes / "work"
    upper.mkdir(parents=True)
    work.mkdir()
    (changes / "of").write_bytes(os.fsencode(path))  # before the path is looked at, which may be gone by now
    shutil.copymode(path, upper)
    try:
        _overlay(path, str(upper), str(work), target)
    except OSError:
        _mount_read_only(path, target)


def _overlay(lower: str, upper: str, work: str, target: str) -> None:
    options = _OPTIONS.format(lower=_escaped(lower), upper=_escaped(upper), work=_escaped(work))
    syscalls.mount("overlay", target, "overlay", options=options)


def _keeps_overlays(folder: Path) -> bool:
    """Return True if the file system of ``folder`` can hold the changes of an overlay."""
    places = [folder / name for name in ("lower", "upper", "work", "shown")]
    for place in places:
        place.mkdir()
    lower, upper, work, shown = map(str, places)
    try:
        _overlay(lower, upper, work, shown)
        (folder / "shown" / "file").touch()
        syscalls.unmount(shown)
    except OSError:
        return False
    finally:
        for place in places:
            remove_tree(place)
    return True


def _escaped(path: str) -> str:
    """Return a path escaped for the options of overlayfs."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def join_view(namespaces: Sequence[str]) -> None:
    """Enter a view, in the folder of the same name. Call it before this process has threads. Raise OSError if the kernel
    refuses."""
    here = os.getcwd()
    handles = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in namespaces]
    for handle, kind in zip(handles, (syscalls.CLONE_NEWUSER, syscalls.CLONE_NEWNS), strict=True):
        syscalls.setns(handle, kind)
        os.close(handle)
    os.chdir(here)


def changed_paths(folder: Path, namespaces: Sequence[str]) -> list[str]:
    """Return the paths that were changed, added or removed in a view that keeps its changes in ``folder``. Empty if the
    view can no longer be entered."""
    told = _told_within(namespaces, lambda: "\0".join(_changes_below(folder / "files")))
    return [*filter(None, told.split("\0"))]


def written_texts(folder: Path, namespaces: Sequence[str], below: str, most_bytes: int) -> dict[str, str]:
    """Return path -> content of the text files below a folder that were changed or added in a view that keeps its changes in
    ``folder``, up to so many bytes each. Empty if the view can no longer be entered."""

    def tell() -> str:
        files = (
            file
            for path in _changes_below(folder / "files")
            if Path(path).is_relative_to(below)
            for file in ([Path(path)] if not os.path.isdir(path) else Path(path).rglob("*"))
        )
        texts = ((str(file), _text_of(file, most_bytes)) for file in files)
        return json.dumps({path: text for path, text in texts if text})

    told = _told_within(namespaces, tell)
    return dict(json.loads(told)) if told else {}


def _text_of(file: Path, most_bytes: int) -> str:
    """Return the content of a text file; empty for any other file."""
    try:
        is_small = file.is_file() and not file.is_symlink() and file.stat().st_size <= most_bytes
        return file.read_bytes().decode() if is_small else ""
    except (OSError, ValueError):
        return ""


def _told_within(namespaces: Sequence[str], tell: Callable[[], str]) -> str:
    """Return what ``tell`` returns in a process within a view; empty if that can no longer be entered."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            join_view(namespaces)
            with os.fdopen(writing, "w", errors="surrogateescape") as said:
                said.write(tell())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, errors="surrogateescape") as heard:
        found = heard.read()
    os.waitpid(child, 0)
    return found


def _changes_below(files: Path) -> Iterator[str]:
    for changes in files.iterdir():
        of = os.fsdecode((changes / "of").read_bytes())
        left = [(changes / "files", of)]
        while left:
            place, path = left.pop()
            for entry in os.scandir(place):
                shown = os.path.join(path, entry.name)
                if entry.is_dir(follow_symlinks=False) and not _is_new(entry.path):
                    left.append((Path(entry.path), shown))
                else:
                    yield shown


def _is_new(folder: str) -> bool:
    """Return True if a folder replaces the machine's folder of that path and does not extend it."""
    try:
        return os.getxattr(folder, "user.overlay.opaque") == b"y"
    except OSError:
        return False
