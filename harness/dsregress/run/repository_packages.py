"""The packages that a repository trains with: by its locks and requirements files, else by the ranges that it declares."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dsregress.errors import UsageError
from dsregress.model import AXES
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.run.project_requirements import declared_requirements, project_text
from dsregress.versions.installed import read_packages
from dsregress.versions.releases import known_releases

#: Files that pin packages, the most complete first.
_LOCKS = ("uv.lock", "poetry.lock", "requirements.lock", "requirements*.txt", "environment.y*ml")

#: A requirement between quotes, as setup.py has it.
_QUOTED = re.compile(r"""(["'])(?P<text>[A-Za-z][\w.-]*(?:\[[\w,-]+\])?\s*(?:[=<>!~].*?)?)\1""")

#: A repository in a requirements file.
_CHECKOUT = re.compile(r"^git\+\S*/([\w-]+?)(?:\.git)?(?:@|#|\s|$)", re.MULTILINE)


@dataclass(frozen=True)
class RepositoryPackages:
    """The packages of a repository."""

    files: tuple[str, ...]  #: those that pin packages of a stack, relative to the repository
    pins: tuple[str, ...]  #: ``deepspeed==0.19.8``: a release of each package of a stack that is used and not pinned


def packages_in(root: Path, folder: Path, used: Iterable[str], usual: Mapping[str, str]) -> RepositoryPackages:
    """Return the packages of a stack that the files of ``root`` and of ``folder``, in which the job is launched, pin or
    name. ``used`` are further ones; a range, or a name alone, comes to its ``usual`` release, else to the newest known one
    that it allows."""
    folders = list(dict.fromkeys((folder, root)))
    pinning: dict[str, set[str]] = {}
    for place in folders:
        for file in (file for pattern in _LOCKS for file in sorted(place.glob(pattern))):
            pinned = _pinned_by(file) & {*AXES}
            if pinned - {name for found in pinning.values() for name in found}:
                pinning[str(file.relative_to(root))] = pinned
    declared: dict[str, Requirement] = {
        canonicalize_name(name): Requirement(name) for name in (*used, *_checkouts(folders))
    }
    declared |= {canonicalize_name(one.name): one for one in _quoted(folders)}
    declared |= {name: one.requirement for name, one in declared_requirements(folders).items()}
    already = {name for found in pinning.values() for name in found}
    pins = [
        f"{name}=={release}"
        for name in AXES
        if name in declared and name not in already and (release := _release(declared[name], usual)) is not None
    ]
    return RepositoryPackages(tuple(pinning), tuple(pins))


def _pinned_by(file: Path) -> set[str]:
    try:
        data = read_regular(str(file), MOST_FILE_BYTES, follow_links=True)
        return set(read_packages(data, str(file)).versions)
    except (OSError, UsageError):  # one that `audit` cannot read either
        return set()


def _quoted(folders: Sequence[Path]) -> Iterator[Requirement]:
    """Yield what setup files have between quotes, extras among them, that of the whole first: a later one replaces an
    earlier."""
    for file in (folder / name for folder in reversed(folders) for name in ("setup.py", "setup.cfg")):
        for found in _QUOTED.finditer(project_text(file)):
            with contextlib.suppress(InvalidRequirement):
                yield Requirement(found["text"])


def _checkouts(folders: Iterable[Path]) -> Iterator[str]:
    """Yield the names of the repositories that requirements files install: any release of them will do."""
    for file in (file for folder in folders for file in folder.glob("requirements*.txt")):
        yield from _CHECKOUT.findall(project_text(file))


def _release(requirement: Requirement, usual: Mapping[str, str]) -> str | None:
    name = canonicalize_name(requirement.name)
    fitting = [
        one for one in (*known_releases(name), usual.get(name, "")) if one and requirement.specifier.contains(one)
    ]
    return fitting[-1] if fitting else None
