"""Keeps what a program writes away from its user's files.

A run has a *shield*, made once in the run's folder (`make_shield`) and taken on by each of its ranks (`join_shield`). It is
the first of these that the machine allows:

- ``view``: the ranks share their own view of the file system (`vgpu.isolation.mount_view`). They can read and
  change everything: their changes belong to the run, and are discarded with it.
- ``landlock``: the ranks may write to the folders of the run alone; elsewhere the kernel refuses (`.landlock`).
- ``none``: no protection but the run's copy of the program's folder (`dsregress.programs.world.workplace`).

Standard library only: the host calls `strongest` before a run, to report what this machine does not allow.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from vgpu import process_control
from vgpu.isolation import landlock, mount_view
from vgpu.trees import remove_tree
from vgpu.whole_files import write_whole

VIEW, LANDLOCK, NONE = KINDS = ("view", "landlock", "none")

#: The shield of a run, as JSON, in its folder.
_FILE = "shield.json"

#: A program of its own, as the processes that measure are: the host is hidden (`processes.hide`), and so are its forks, for
#: which only root can then map the ids of a view.
_TRIAL = (
    "import sys; sys.path.insert(0, sys.argv[1]); from vgpu.isolation import say_what_works; "
    "say_what_works(sys.argv[2])"
)

#: What the kernel answers a write that it refuses: a view has files without changes of their own.
_REFUSALS = {VIEW: errno.EROFS, LANDLOCK: errno.EACCES}

#: Name of the folder, below a run's, in which its view keeps changes.
_CHANGED = "changed"


@dataclass(frozen=True, kw_only=True)
class Shield:
    """The shield that keeps one run's writes apart. ``namespaces`` are open handles of the process that made the view."""

    kind: str
    writable: list[str]
    namespaces: list[str]


def make_shield(run: Path, writable: Sequence[str], kinds: Sequence[str] = ()) -> str:
    """Make the shield of a run and return its kind, the first of ``kinds``, else of all, that works here.

    ``writable`` are folders besides the run's in which writes are to stay. The processes that `join_shield` may be forks of
    this one or not; this one must still exist when they do.
    """
    shield = _first_working_shield(run, [str(run), *(folder for folder in writable if folder)], kinds or KINDS)
    write_whole(run / _FILE, json.dumps(asdict(shield)))
    return shield.kind


def _first_working_shield(run: Path, writable: list[str], kinds: Sequence[str]) -> Shield:
    if sys.platform != "linux":
        kinds = ()
    for folder in writable:
        os.makedirs(folder, exist_ok=True)
    if VIEW in kinds:
        with contextlib.suppress(OSError):  # this kernel, or this container, allows no namespaces or no overlays
            return Shield(kind=VIEW, writable=writable, namespaces=mount_view.make_view(run / _CHANGED, writable))
    kind = LANDLOCK if LANDLOCK in kinds and landlock.landlock_version() > 0 else NONE
    return Shield(kind=kind, writable=writable, namespaces=[])


def join_shield(run: Path) -> Shield:
    """Take on the shield of a run, for this process and all that it starts. Return it.

    Call it before this process has threads. Raise OSError if the kernel refuses what it allowed before.
    """
    shield = _shield(run)
    parent = os.getppid()
    if shield.kind == VIEW:
        mount_view.join_view(shield.namespaces)
    elif shield.kind == LANDLOCK:
        temporary = run / "tmp"
        temporary.mkdir(exist_ok=True)
        os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None
        landlock.restrict([*shield.writable, *_home_of_the_run()])
        landlock.ignore_metadata()
    process_control.die_with_parent(parent)  # the kernel forgets it when privileges change
    return shield


def kind_of(run: Path) -> str:
    """Return the kind of a run's shield."""
    return _shield(run).kind if (run / _FILE).is_file() else NONE


def changed_outside(run: Path) -> list[str]:
    """Return the paths outside the run that it changed in its view, sorted: existing ones that were changed or removed,
    and new ones outside temporary folders. For a new folder, only the folder. Empty without a view."""
    if kind_of(run) != VIEW:
        return []
    shield = _shield(run)
    own = tuple(f"{folder}/" for folder in (str(run.parent), *shield.writable))
    temporary = _temporary_folders()
    found = (
        _as_far_as_there(path)
        for path in mount_view.changed_paths(run / _CHANGED, shield.namespaces)
        if not path.startswith(own) and not path.endswith(".pyc")
    )
    return sorted({path for path in found if os.path.lexists(path) or not path.startswith(temporary)})


def written_texts(run: Path, below: str, most_bytes: int) -> dict[str, str]:
    """Return path -> content of the text files below a folder that the run wrote in its view, up to so many bytes each.
    Empty without a view."""
    if kind_of(run) != VIEW:
        return {}
    return mount_view.written_texts(run / _CHANGED, _shield(run).namespaces, below, most_bytes)


def _temporary_folders() -> tuple[str, ...]:
    return (f"{tempfile.gettempdir()}/", "/tmp/", "/var/tmp/", "/dev/shm/")


def _as_far_as_there(path: str) -> str:
    """Return a path, or the outermost folder on it that the machine does not have."""
    while not os.path.lexists(above := os.path.dirname(path)):
        path = above
    return path


def _home_of_the_run() -> list[str]:
    """Return the home folder that measured processes get, if they have one that is not the user's."""
    home = os.environ.get("HOME", "")
    try:
        is_the_users = os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir) == os.path.realpath(home)
    except KeyError:  # in a container, whose user has no name
        is_the_users = False
    return [home] if home and not is_the_users else []


def discard(run: Path) -> None:
    """Remove the shield of a run, with all that was changed in its view."""
    remove_tree(run / _CHANGED)
    (run / _FILE).unlink(missing_ok=True)


def refused_path(run: Path, error: OSError) -> str:
    """Return the path that a program could not write because of its shield; "" if its error is another one."""
    kind = kind_of(run)
    if error.errno != _REFUSALS.get(kind) or not isinstance(error.filename, (str, bytes)):
        return ""
    path = os.path.realpath(os.fsdecode(error.filename))
    if any(Path(path).is_relative_to(folder) for folder in _shield(run).writable):
        return ""
    if kind == VIEW:
        return path
    there = next(one for one in (Path(path), *Path(path).parents) if one.exists())
    return path if os.access(there, os.W_OK) else ""


def strongest(folder: Path) -> str:
    """Return the kind that a run in ``folder`` will have on this machine. Raise OSError if nothing can be written."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        tried = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _TRIAL, str(Path(__file__).parents[2]), made],
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        remove_tree(Path(made) / _CHANGED)
    if tried.stdout not in KINDS:
        raise OSError(f"what keeps a program from your files could not be tried: {tried.stderr.strip()[-500:]}")
    return tried.stdout


def say_what_works(folder: str) -> None:
    """Print the kind of a shield that works for a process that measures, in an empty folder."""
    process_control.give_up_prying()  # as the processes that measure
    sys.stdout.write(_first_working_shield(Path(folder), [folder], KINDS).kind)


def _shield(run: Path) -> Shield:
    return Shield(**json.loads((run / _FILE).read_text()))
