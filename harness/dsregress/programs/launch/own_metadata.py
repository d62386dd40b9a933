"""The metadata that ``pip install -e .`` gives a project: its name and version, which its own code may look up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

#: A project's own name and version, in pyproject.toml and setup.cfg, and as arguments of ``setup``.
_NAME = re.compile(r"""^\s*name\s*=\s*["']?([A-Za-z0-9][\w.-]*)""", re.MULTILINE)
_VERSION = re.compile(r"""^\s*version\s*=\s*["']?(\d[\w.+!-]*)""", re.MULTILINE)

#: Of a project that does not say its version where it can be read without running anything.
_UNKNOWN = "0"


class OwnDistribution(metadata.Distribution):
    """A project that is not installed."""

    def __init__(self, project: Path, name: str, version: str) -> None:
        self._project = project
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        """Return the metadata; None for any other file."""
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        """Return the path of a file of the project."""
        return self._project / str(path)


def own_distribution(project: Path, files: Sequence[str]) -> OwnDistribution | None:
    """Return the distribution of the project with these files; None if none of them names it."""
    texts = [(project / name).read_text("utf-8", "replace") for name in files if (project / name).is_file()]
    named = next(filter(None, map(_NAME.search, texts)), None)
    if named is None:
        return None
    version = next(filter(None, map(_VERSION.search, texts)), None)
    return OwnDistribution(project, named[1], version[1] if version is not None else _version_in_file(project))


def _version_in_file(project: Path) -> str:
    for name in ("VERSION", "version.txt"):
        if (project / name).is_file():
            found = re.match(r"\s*(\d[\w.+!-]*)", (project / name).read_text("utf-8", "replace"))
            return found[1] if found is not None else _UNKNOWN
    return _UNKNOWN
