"""A git repository of tinyframe whose history is known: what each commit gets wrong, and which of them are releases."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "tinyframe"

#: What the commit's subject says -> what it gets wrong, and the release that it is.
HISTORY = {
    "Release 1.0.0": ("good", "v1.0.0"),
    "Split the engine from its memory": ("good", ""),
    "Gather weights later": ("good", ""),
    "Follow torch's new names": ("not-importing", ""),
    "Keep what is gathered": ("hungry", ""),
    "Say in the readme what a weight is": ("hungry", ""),
    "Release 1.1.0": ("hungry", "v1.1.0"),
    "Name the hook": ("hungry", ""),
    "Let go of what was gathered": ("good", ""),
    "Thank who reported it": ("good", ""),
}

#: Builds a wheel with nothing but the standard library, so that a commit is installed without a network.
_BACKEND = """
import pathlib
import zipfile


def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = "tinyframe-0.0.dist-info"
    files = {path.as_posix(): path.read_text() for path in sorted(pathlib.Path("tinyframe").glob("*.py"))}
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\\nName: tinyframe\\nVersion: 0.0\\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: tests\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(pathlib.Path(folder) / "tinyframe-0.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "tinyframe-0.0-py3-none-any.whl"
"""

_PROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tinyframe"
version = "0.0"
"""


def make(folder: Path) -> dict[str, str]:
    """Write the repository; returns subject -> hash."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "pyproject.toml").write_text(_PROJECT)
    (folder / "backend.py").write_text(_BACKEND)
    package = folder / "tinyframe"
    package.mkdir()
    for file in _SOURCE.glob("*.py"):
        (package / file.name).write_text(file.read_text())
    hashes = {}
    for number, (subject, (behaviour, tag)) in enumerate(HISTORY.items()):
        (package / "_release.py").write_text(f'BEHAVIOUR = "{behaviour}"\n')
        (folder / "CHANGES").write_text(f"{number}: {subject}\n")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", subject, at=f"2026-01-{number + 1:02}T12:00:00Z")
        if tag:
            git(folder, "tag", tag)
        hashes[subject] = git(folder, "rev-parse", "HEAD")
    return hashes


def git(folder: Path, *arguments: str, at: str = "2026-01-01T12:00:00Z") -> str:
    """What git says, on behalf of nobody."""
    nobody = {
        **{f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        **{f"GIT_{who}_DATE": at for who in ("AUTHOR", "COMMITTER")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=nobody, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()
