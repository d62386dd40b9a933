"""Compares the files of a distribution in two environments. Reads files, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from dsregress.envs.inside import own_files
from dsregress.envs.places import site_packages
from dsregress.model import Environment


def changed_files(old: Environment, new: Environment, distribution: str) -> tuple[str, ...]:
    """Return ``+12 -3 deepspeed/runtime/zero/stage3.py``: lines only in the new, only in the old environment; most lines
    first.

    Lines are counted independently of their position, so that moved lines are no change. Empty if an environment is missing.
    """
    before, after = (_files_of_distribution(environment, distribution) for environment in (old, new))
    if not before or not after:
        return ()
    found = []
    for name in sorted(before.keys() | after.keys()):
        gone, come = _line_counts(before.get(name)), _line_counts(after.get(name))
        added, removed = sum((come - gone).values()), sum((gone - come).values())
        if added or removed:
            found.append((-(added + removed), f"+{added} -{removed} {name}"))
    return tuple(text for _, text in sorted(found))


def _files_of_distribution(environment: Environment, distribution: str) -> dict[str, Path]:
    if not environment.python:
        return {}
    packages = site_packages(Path(environment.python).parents[1])
    return {name: packages / name for name in own_files(packages, distribution) if name.endswith(".py")}


def _line_counts(file: Path | None) -> Counter[str]:
    if file is None or not file.is_file():
        return Counter()
    return Counter(file.read_text(encoding="utf-8", errors="replace").splitlines())
