"""The folders of a project that its own README installs: ``pip install -e peft``, ``cd peft && pip install .``."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from dsregress.run.project_requirements import PIP_LINE, install_texts, project_folders

#: ``cd peft``, ``pip install -e . --no-deps``, and what begins the next list of commands.
_STEP = re.compile(rf"\bcd[ \t]+([^\s;&|`]+)|{PIP_LINE.pattern}|^```", re.MULTILINE)

_OF_A_PACKAGE = ("pyproject.toml", "setup.py", "setup.cfg")


def installed_folders(folder: Path) -> list[Path]:
    """Return the folders of the packages that the project of ``folder`` installs of itself; not the project as a whole."""
    found: dict[Path, None] = {}
    for project in project_folders(folder):
        for text in install_texts(project):
            for installed in _folders_in(text, project):
                found[installed / "src" if (installed / "src").is_dir() else installed] = None
    return [*found]


def _folders_in(text: str, project: Path) -> Iterator[Path]:
    at = project
    for changed, words in _STEP.findall(text):
        if changed:
            to = Path(os.path.normpath(at / changed))
            at = to if to.is_dir() and to.is_relative_to(project) else at  # the project's own name, after ``git clone``
        elif words:
            for word in _arguments_in(words):
                one = Path(os.path.normpath(at / word.partition("[")[0]))
                if (
                    one != project
                    and one.is_relative_to(project)
                    and any((one / name).is_file() for name in _OF_A_PACKAGE)
                ):
                    yield one
        else:
            at = project


def _arguments_in(text: str) -> list[str]:
    try:
        return [word for word in shlex.split(text, comments=True) if not word.startswith("-")]
    except ValueError:
        return []
