"""The packages that a repository trains with: by its locks and requirements files, else by the ranges that it declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dsregress.config.toml_text import parsed_toml
from dsregress.errors import UsageError
from dsregress.model import AXES
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.versions.installed import read_packages
from dsregress.versions.releases import known_releases

#: Files that pin packages, the most complete first.
_LOCKS = ("uv.lock", "poetry.lock", "requirements.lock", "requirements*.txt", "environment.y*ml")

#: A requirement between quotes, as setup.py has it.
_QUOTED = re.compile(r"""(["'])(?P<text>[A-Za-z][\w.-]*(?:\[[\w,-]+\])?\s*(?:[=<>!~].*?)?)\1""")


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
    declared: dict[str, Requirement] = {name: Requirement(name) for name in used}
    declared |= {canonicalize_name(one.name): one for one in _declared(folders)}
    already = {name for found in pinning.values() for name in found}
    pins = [
        f"{name}=={release}"
        for name in AXES
        if name in declared and name not in already and (release := _release(declared[name], usual)) is not None
    ]
    return RepositoryPackages(tuple(pinning), tuple(pins))


def name_of_project(root: Path) -> str:
    """Return the distribution that a repository builds, normalised; empty if no file says it."""
    project = _toml(root / "pyproject.toml").get("project", {})
    name = project.get("name") if isinstance(project, dict) else None
    if name is None:
        found = re.search(
            r"""\bname\s*=\s*["']?([A-Za-z][\w.-]*)""", _text(root / "setup.py") + _text(root / "setup.cfg")
        )
        name = found[1] if found else ""
    return canonicalize_name(str(name))


def _pinned_by(file: Path) -> set[str]:
    try:
        data = read_regular(str(file), MOST_FILE_BYTES, follow_links=True)
        return set(read_packages(data, str(file)).versions)
    except (OSError, UsageError):  # one that `audit` cannot read either
        return set()


def _declared(folders: list[Path]) -> Iterator[Requirement]:
    """Yield the requirements that a repository declares, those of the whole first: a later one replaces an earlier."""
    for folder in reversed(folders):
        texts = [
            found["text"] for name in ("setup.py", "setup.cfg") for found in _QUOTED.finditer(_text(folder / name))
        ]
        project = _toml(folder / "pyproject.toml").get("project", {})
        if isinstance(project, dict):
            extras = project.get("optional-dependencies", {})
            lists = [project.get("dependencies", []), *(extras.values() if isinstance(extras, dict) else [])]
            texts += [text for each in lists if isinstance(each, list) for text in each]
        for file in sorted(folder.glob("requirements*.txt")):
            texts += [re.split(r"(?:^|\s)#|\s--", line)[0].strip() for line in _text(file).splitlines()]
        for text in texts:
            try:
                yield Requirement(str(text))
            except InvalidRequirement:
                if found := re.match(r"git\+\S*/(?P<name>[\w-]+?)(?:\.git)?(?:@|#|$)", str(text)):
                    yield Requirement(found["name"])  # of a checkout: any release


def _release(requirement: Requirement, usual: Mapping[str, str]) -> str | None:
    name = canonicalize_name(requirement.name)
    fitting = [
        one for one in (*known_releases(name), usual.get(name, "")) if one and requirement.specifier.contains(one)
    ]
    return fitting[-1] if fitting else None


def _toml(file: Path) -> dict[str, object]:
    try:
        return parsed_toml(_text(file))
    except ValueError:
        return {}


def _text(file: Path) -> str:
    try:
        return read_regular(str(file), MOST_FILE_BYTES, follow_links=True).decode("utf-8", "replace")
    except OSError:
        return ""
