"""Skeletons that programs need: made on demand by a separate process, found again by their content, and shared by all
environments whose transformers makes the same ones."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dsregress.probe.border import skeleton_maker
from dsregress.programs.world.resource_errors import NotHere
from skeletons.hub_names import is_called_after_another, known_model_name
from skeletons.known_models import known_models
from skeletons.make import configuration_companions
from skeletons.maker_answer import SkeletonRefused
from skeletons.pipelines import known_pipelines
from vgpu.trees import remove_tree

_ROOT = Path(__file__).resolve().parents[3]


class Skeletons:
    """Skeletons in ``folder``, in the layout of the Hugging Face cache (``models--ORGANISATION--NAME/snapshots/HASH``):
    one such cache for each combination of tiny or not, contents or not, and the packages that make them.

    Many processes of this environment and of others may use it at once: one makes a skeleton, the others wait for it.
    """

    def __init__(self, folder: Path, *, tiny: bool, contents: bool) -> None:
        self.folder = folder / _digest([tiny, contents, *skeleton_makers()])[:16]
        self.tiny = tiny
        self.contents = contents

    def of(self, what: str, name: str) -> Path:
        """Return the skeleton of a known model, or of a folder with a ``config.json``, stored as ``name``. Raise NotHere
        if it cannot be made."""
        digest = _digest(self._content(what))
        repository = self.folder / f"models--{name.replace('/', '--')}"
        place = repository / "snapshots" / digest
        if place.is_dir():
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(repository / f"{digest}.lock"):
            if not place.is_dir():
                self._make(what, place)
                (repository / "refs").mkdir(exist_ok=True)
                (repository / "refs" / "main").write_text(digest)
        return place

    def _make(self, what: str, place: Path) -> None:
        """Make the skeleton in a separate process: a program's process may have ``zero.Init``, a default device or a
        meter in force."""
        unfinished = Path(tempfile.mkdtemp(prefix=".making-", dir=place.parent))
        try:
            skeleton_maker.make_skeleton(
                sys.executable, what, unfinished, os.environ, tiny=self.tiny, contents=self.contents
            )
            unfinished.rename(place)
        except (SkeletonRefused, skeleton_maker.MakerFailed) as error:
            raise NotHere(what, str(error)) from None
        finally:
            remove_tree(unfinished)

    @staticmethod
    def _content(what: str) -> list[object]:
        """Return what decides the content of a skeleton. Files next to a configuration are copied unchanged."""
        if (model := known_models().get(what)) is not None:
            return [dataclasses.asdict(model)]
        if is_called_after_another(what):
            return [what, dataclasses.asdict(known_models()[str(known_model_name(what))])]
        if (pipeline := known_pipelines().get(what)) is not None:
            return [dataclasses.asdict(pipeline)]
        return [
            what,
            (Path(what) / "config.json").read_text(encoding="utf-8"),
            *_states(configuration_companions(what)),
        ]


def _digest(content: object) -> str:
    return hashlib.sha1(json.dumps(content).encode()).hexdigest()


@functools.cache  # constant while a process runs; the ranks of a server's cells are its forks
def skeleton_makers() -> list[object]:
    """Return what decides how a skeleton is made: torch, transformers, diffusers, and `skeletons`. A commit
    of transformers, and an edited installation, can have the version of another, so its files count."""
    code = hashlib.sha1(b"".join(file.read_bytes() for file in maker_files())).hexdigest()
    return [_version("torch"), _version("transformers"), _version("diffusers"), code, *_states(_transformers_code())]


def maker_files() -> list[Path]:
    """Return the files of `skeletons`: its code and its tables."""
    return sorted(file for suffix in ("py", "json") for file in (_ROOT / "skeletons").rglob(f"*.{suffix}"))


def _transformers_code() -> Iterator[str]:
    spec = importlib.util.find_spec("transformers")
    for folder in (spec and spec.submodule_search_locations) or ():
        for place, _, names in os.walk(folder):
            yield from (f"{place}/{name}" for name in names if name.endswith(".py"))


def _states(files: Iterable[str | Path]) -> list[tuple[str, int, int]]:
    """Return name, size in bytes and modification time of each file, sorted."""
    states = ((file, os.stat(file)) for file in files)
    return sorted((os.path.basename(file), state.st_size, state.st_mtime_ns) for file, state in states)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    with place.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
