"""Lists of packages in TOML, JSON and YAML, as lines of a requirements file: pylock.toml (PEP 751), the dependencies of
pyproject.toml, Pipfile.lock, ``pip list --format=json``, ``pip inspect``, ``conda list --json``, conda-lock.yml. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from dsregress.config.toml_text import parsed_toml, table_of
from dsregress.errors import UsageError
from dsregress.versions.pasted_versions import CONDA_NAMES
from dsregress.versions.poetry_requirements import poetry_requirements

#: Where a lock says that a package is a checkout, or a folder.
_OWN_SOURCES = ("vcs", "directory", "archive")

#: The platform of conda's locks on which the measured releases run.
_PLATFORM = "linux-64"


class ListedPackages(msgspec.Struct, frozen=True):
    """Lines of a requirements file."""

    lines: tuple[str, ...]
    is_whole: bool  #: what is not among them is not installed


def listed_packages(text: str, file: str) -> ListedPackages | None:
    """Return the packages of a file in one of these forms; None for a file in another. Raise UsageError for one of which
    another command prints what can be read."""
    base = re.split(r"[/\\\s]", file)[-1]
    if base == "pixi.lock":
        hint = "give the output of `pixi list`"
        raise UsageError("is pixi's lock, in YAML, which is not read", where=file, hint=hint)
    if base == "pyproject.toml":
        return _of_project(_toml(text, file), file)
    if re.search(r"^\[\[packages\]\]", text, re.MULTILINE):
        return ListedPackages(tuple(_of_pylock(_toml(text, file))), is_whole=True)
    if base.endswith((".yml", ".yaml")) and re.search(r"^package:", text, re.MULTILINE):
        return _of_conda_lock(text, file)
    return _of_json(text) if text.lstrip()[:1] in ("{", "[") else None


def _toml(text: str, file: str) -> Mapping[str, object]:
    try:
        return parsed_toml(text)
    except ValueError as error:
        raise UsageError(f"not valid TOML: {error}", where=file, hint="`pip freeze` prints what is installed") from None


def _of_project(values: Mapping[str, object], file: str) -> ListedPackages:
    """Return the dependencies that are no extra's."""
    declared = table_of(values, "project").get("dependencies")
    if not isinstance(declared, list):
        declared = [*poetry_requirements(table_of(values, "tool", "poetry", "dependencies"))]
        if not declared:
            hint = "give its lock, or the output of `pip freeze`"
            raise UsageError("has no `dependencies` of a [project]", where=file, hint=hint)
    return ListedPackages(tuple(map(str, declared)), is_whole=False)


def _of_pylock(values: Mapping[str, object]) -> Iterator[str]:
    for one in _entries(values.get("packages")):
        is_own = any(source in one for source in _OWN_SOURCES) or "version" not in one
        pin = f"{one['name']} @ file:///own" if is_own else f"{one['name']}=={one['version']}"
        yield f"{pin} ; {one['marker']}" if one.get("marker") else pin


def _of_conda_lock(text: str, file: str) -> ListedPackages:
    try:
        values = msgspec.yaml.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        hint = "give the output of `conda list`"
        raise UsageError(f"not valid YAML: {reason}", where=file, hint=hint) from None
    entries = _entries(values.get("package") if isinstance(values, Mapping) else None)
    return ListedPackages(
        tuple(_pins(one for one in entries if one.get("platform", _PLATFORM) == _PLATFORM)), is_whole=True
    )


def _of_json(text: str) -> ListedPackages | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(values, list):
        pins = tuple(_pins(_entries(values)))
        return ListedPackages(pins, is_whole=False) if pins else None
    if isinstance(locked := values.get("default"), dict):
        pins = tuple(f"{name}{one['version']}" for name, one in locked.items() if _has_version(one))
        others = tuple(f"{name} @ file:///own" for name, one in locked.items() if not _has_version(one))
        return ListedPackages((*pins, *others), is_whole=True)
    if isinstance(installed := values.get("installed"), list):
        found = [
            one["metadata"] for one in installed if isinstance(one, dict) and isinstance(one.get("metadata"), dict)
        ]
        return ListedPackages(tuple(_pins(_entries(found))), is_whole=True)
    return None


def _has_version(one: object) -> bool:
    return isinstance(one, dict) and isinstance(one.get("version"), str)


def _entries(values: object) -> list[Mapping[str, object]]:
    found = values if isinstance(values, list) else []
    return [one for one in found if isinstance(one, dict) and isinstance(one.get("name"), str)]


def _pins(entries: Iterable[Mapping[str, object]]) -> Iterator[str]:
    for one in entries:
        if isinstance(one.get("version"), str):
            name = str(one["name"])
            yield f"{CONDA_NAMES.get(name, name)}=={one['version']}"
