"""Skeletons that programs need: made on demand by a process of its own, found again by their content."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.probe.border import skeleton_maker
from harness.probe.programs.errors import NotHere
from harness.probe.skeleton import models

_ROOT = Path(__file__).resolve().parents[3]


class Skeletons:
    """A folder of skeletons, in the layout of the Hugging Face cache (``models--ORGANISATION--NAME/snapshots/HASH``).

    Many processes may use it at once: one makes a skeleton, the others wait for it.
    """

    def __init__(self, folder: Path, *, tiny: bool, contents: bool) -> None:
        self.folder = folder
        self.tiny = tiny
        self.contents = contents

    def of(self, what: str, name: str) -> Path:
        """The skeleton of a known model, or of a folder with a ``config.json``, stored as ``name``. Raises NotHere."""
        digest = hashlib.sha1(
            json.dumps([*self._content(what), self.tiny, self.contents, _releases()]).encode()
        ).hexdigest()
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
        """In a process of its own: a program's process may have ``zero.Init``, a default device or a meter in force."""
        unfinished = Path(tempfile.mkdtemp(prefix=".making-", dir=place.parent))
        try:
            skeleton_maker.made(sys.executable, what, unfinished, os.environ, tiny=self.tiny, contents=self.contents)
            unfinished.rename(place)
        except (skeleton_maker.SkeletonRefused, skeleton_maker.MakerFailed) as error:
            raise NotHere(what, str(error)) from None
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    @staticmethod
    def _content(what: str) -> list[str]:
        """What decides the content of a skeleton."""
        if what in models.MODELS:
            return [json.dumps(models.MODELS[what])]
        return [what, (Path(what) / "config.json").read_text(encoding="utf-8")]


@functools.cache  # neither changes while a process runs, and the first model may be one of many
def _releases() -> tuple[str, str]:
    """transformers names the parameters; the maker is this package."""
    try:
        release = version("transformers")
    except PackageNotFoundError:
        release = ""
    files = sorted((_ROOT / "harness" / "probe" / "skeleton").glob("*.py"))
    return release, hashlib.sha1(b"".join(file.read_bytes() for file in files)).hexdigest()


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    with place.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
