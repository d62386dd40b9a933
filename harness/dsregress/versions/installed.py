"""Installed packages, read from a requirements file, the output of ``pip freeze``, a lock (``uv.lock``, ``poetry.lock``), a
conda environment's YAML, and what `listed_packages` and `pasted_versions` turn into requirements. Pure.

Only an exact pin determines the installed release; other bounds leave a range of them. A build for another accelerator
(``2.5.1+cu124``) is that release; one with any other local version, an editable install and a checkout are no release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from dsregress.config.toml_text import parsed_toml
from dsregress.errors import UsageError
from dsregress.probe.border.masking import without_secrets
from dsregress.versions.listed_packages import listed_packages
from dsregress.versions.pasted_settings import pasted_settings
from dsregress.versions.pasted_versions import CONDA_NAMES, as_requirements, sign_of_cuda

_FREEZE = "`pip freeze` prints what is installed"
_NOT_PINNED, _OWN_CODE = "not pinned", "not a release"

_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)(?P<value>.+)")
_INCLUDED = re.compile(r"(?:-r|--requirement)(?:\s*|=)(?P<file>\S.*)")
_OTHER_FILE = re.compile(r"(?:-c|--constraint)(?:\s*|=)\S.*")
#: Options of pip about the sources of packages, not about their selection.
_OPTION = re.compile(
    r"-i|-f|--(?:index-url|extra-index-url|no-index|find-links|no-binary|only-binary|prefer-binary|require-hashes|pre|"
    r"trusted-host|use-feature)\b"
)
_EGG = re.compile(r"#(?:.*&)?egg=(?P<name>[A-Za-z0-9._-]+)")
#: The last part of a checkout's address: its repository, and the tag of a release.
_REPOSITORY = re.compile(
    r"git\+[a-z]+://(?:[^/@]+@)?[^?#@]*/(?P<name>[\w.-]+?)(?:\.git)?/?(?:@(?P<commit>[^?#@]+))?(?:[?#].*)?$"
)
_TAG = re.compile(r"(?:refs/tags/)?v?(?P<release>\d+\.\d+(?:\.\d+)*(?:\.post\d+)?)")
#: Repository -> its package, where they have different names.
_OF_REPOSITORY = {"llama-factory": "llamafactory"}
_PLACE = re.compile(r"\.{0,2}/|[a-z+]+://|\S+(?:/|\.whl$|\.zip$|\.tar\.gz$)")
_ACCELERATOR = re.compile(r"(?:cpu|cu\d|rocm|xpu)")


class InstalledPackages(msgspec.Struct, frozen=True, kw_only=True):
    """Packages by their normalised names."""

    versions: dict[str, str]  #: of those whose release is known
    unknown: dict[str, str]  #: the others -> why their release is not known
    unread: tuple[str, ...]  #: lines that name another file, such as one of constraints
    included: tuple[str, ...] = ()  #: files of requirements that it includes, as it names them
    ranges: dict[str, str] = {}  #: of those that are not known, whose releases a file bounds: ``>=2.5,<2.10``
    is_whole: bool = False  #: what is not among them is not installed, as for a lock
    cuda: str = ""  #: what says that they are for GPUs: ``torch 2.8.0+cu126``; empty if nothing does
    settings: dict[str, Any] = {}  #: of accelerate, which a report lists beside the packages


def read_packages(data: bytes, file: str) -> InstalledPackages:
    """Return the packages in ``file`` with this content. Raise UsageError, which names the line."""
    text = _decoded(data, file)
    found = _packages_in(text, file)
    cuda = found.cuda or sign_of_cuda(text, (*found.versions, *found.unknown))
    return msgspec.structs.replace(found, cuda=cuda, settings=pasted_settings(text))


def _decoded(data: bytes, file: str) -> str:
    try:
        # PowerShell's `pip freeze > FILE` writes UTF-16.
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("not a text file", where=file, hint=_FREEZE) from None


def _packages_in(text: str, file: str) -> InstalledPackages:
    if (listed := listed_packages(text, file)) is not None:
        return msgspec.structs.replace(_requirements("\n".join(listed.lines), file), is_whole=listed.is_whole)
    if text.lstrip().startswith("{"):
        hint = "a configuration is given by --config, packages by a requirements file or a lock"
        raise UsageError("is JSON, and no list of packages", where=file, hint=hint)
    is_environment = "dependencies:" in text or as_requirements(text) == text  # and no compose's, which names images
    if file.endswith((".yaml", ".yml")) and is_environment:
        return _conda_environment(text, file)
    if not is_lock(text, file):
        return _requirements(as_requirements(text), file)
    return msgspec.structs.replace(_packages_in_lock(text, file), is_whole=True)


def is_lock(text: str, file: str) -> bool:
    """Return True for a lock, which has every package of an environment."""
    return file.endswith((".lock", ".toml")) or re.search(r"^\[\[package\]\]", text, re.MULTILINE) is not None


def packages_of(versions: Mapping[str, str]) -> InstalledPackages:
    """Return the packages of an environment by their distributions' versions."""
    found = _Found()
    for name, version in versions.items():
        found.add(name, version)
    finished = found.finished()
    return msgspec.structs.replace(finished, is_whole=True, cuda=finished.cuda or sign_of_cuda("", versions))


def merged_packages(parts: Iterable[InstalledPackages]) -> InstalledPackages:
    """Return the packages of all parts; of a package that several have, the release of the last."""
    parts = list(parts)
    versions = {name: version for one in parts for name, version in one.versions.items()}
    unknown = {name: why for one in parts for name, why in one.unknown.items() if name not in versions}
    return InstalledPackages(
        versions=versions,
        unknown=unknown,
        ranges={name: found for one in parts for name, found in one.ranges.items() if name in unknown},
        unread=tuple(line for one in parts for line in one.unread),
        included=tuple(file for one in parts for file in one.included),
        is_whole=any(one.is_whole for one in parts),
        cuda=next((one.cuda for one in parts if one.cuda), ""),
        settings={key: value for one in parts for key, value in one.settings.items()},
    )


class _Found:
    """The packages read so far."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[str, None]] = {}
        self._unknown: dict[str, str] = {}
        self._ranges: dict[str, SpecifierSet] = {}
        self._cuda = ""
        self.unread: list[str] = []
        self.included: list[str] = []

    def add(self, name: str, version: str) -> str:
        """Add a package. Return another release of it that was read before; empty if there was none."""
        name = canonicalize_name(name)
        try:
            parsed = Version(version)
        except ValueError:  # InvalidVersion, or a number of thousands of digits
            self._unknown[name] = _OWN_CODE
            return ""
        if parsed.local is not None and not _ACCELERATOR.match(parsed.local):
            self._unknown[name] = f"{_OWN_CODE}: {parsed}"
            return ""
        if name == "torch" and re.match(r"cu\d", parsed.local or ""):
            self._cuda = f"{name} {parsed}"
        releases = self._versions.setdefault(name, {})
        releases[parsed.public] = None
        return next((one for one in releases if one != parsed.public), "")

    def add_unknown(self, name: str, why: str) -> None:
        """Add a package whose release is not known."""
        self._unknown.setdefault(canonicalize_name(name), why)

    def add_range(self, name: str, bounds: SpecifierSet) -> None:
        """Add a package whose release is not known but for its bounds."""
        name = canonicalize_name(name)
        self._ranges[name] = self._ranges.get(name, SpecifierSet()) & bounds
        self.add_unknown(name, _NOT_PINNED)

    def finished(self) -> InstalledPackages:
        """Return all packages. A lock may have several releases of a package, for different machines."""
        versions = {name: next(iter(found)) for name, found in self._versions.items() if len(found) == 1}
        several = {name: " or ".join(found) for name, found in self._versions.items() if len(found) > 1}
        unknown = {name: why for name, why in {**self._unknown, **several}.items() if name not in versions}
        # ">=2.5,<2.10", not in the order of a set
        ranges = {
            name: ",".join(sorted(map(str, bounds), reverse=True))
            for name, bounds in self._ranges.items()
            if unknown.get(name) == _NOT_PINNED and len(bounds)
        }
        return InstalledPackages(
            versions=versions,
            unknown=unknown,
            unread=tuple(self.unread),
            included=tuple(self.included),
            ranges=ranges,
            cuda=self._cuda,
        )


def _requirements(text: str, file: str) -> InstalledPackages:
    found = _Found()
    for number, line in _requirement_lines(text):
        where = f"{file}:{number}"
        if line.startswith("-"):
            _read_option(line, number, where, found)
            continue
        try:
            requirement = Requirement(re.split(r"\s--?[a-z]", line)[0])
        except InvalidRequirement:
            if not _PLACE.match(line):
                shown = without_secrets(line)
                hint = "write NAME==VERSION, or give the output of `pip freeze`"
                raise UsageError(f"not a requirement: {shown!r}", where=where, hint=hint) from None
            _add_place(line, found)
            continue
        if requirement.marker is not None and not _applies(requirement.marker):
            continue
        if requirement.url is not None:
            _add_place(requirement.url, found, requirement.name)
            continue
        pins = [
            one.version
            for one in requirement.specifier
            if one.operator in ("==", "===") and not one.version.endswith(".*")
        ]
        if len(pins) != 1:
            found.add_range(requirement.name, requirement.specifier)
        elif other := found.add(requirement.name, pins[0]):
            raise UsageError(
                f"{requirement.name} is {pins[0]} here and {other} above", where=where, hint="keep one of the two lines"
            )
    return found.finished()


def _requirement_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines numbered from 1, without comments; a line that a backslash continues is one."""
    whole, first = "", 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        first = first if whole else number
        whole += line.rstrip()
        if whole.endswith("\\"):
            whole = f"{whole[:-1]} "
            continue
        if stripped := re.sub(r"(^|\s)#.*$", "", whole).strip():
            yield first, stripped
        whole = ""


def _read_option(line: str, number: int, where: str, found: _Found) -> None:
    """Read an option. Raise UsageError for one that pip does not have."""
    if (editable := _EDITABLE.match(line)) and (checkout := _REPOSITORY.match(editable["value"])):
        egg = _EGG.search(editable["value"])
        _add_checkout(checkout, found, egg["name"] if egg else "", f"{_OWN_CODE}: editable")
    elif editable:
        egg = _EGG.search(editable["value"])
        name = egg["name"] if egg else editable["value"].rstrip("/").rpartition("/")[2].partition("[")[0]
        found.add_unknown(name, f"{_OWN_CODE}: editable")  # a checkout's folder mostly has its package's name
    elif (included := _INCLUDED.match(line)) and "://" not in line:
        found.included.append(included["file"])
    elif included or _OTHER_FILE.match(line):
        found.unread.append(f"{without_secrets(line)} (line {number})")
    elif not _OPTION.match(line):
        shown = without_secrets(line)
        raise UsageError(f"not an option of a requirements file: {shown!r}", where=where, hint="write NAME==VERSION")


def _add_place(url: str, found: _Found, name: str = "") -> None:
    """Add a package by the address of its file, whose name gives the release, or of its checkout, of which a tag does."""
    if (checkout := _REPOSITORY.match(url)) is not None:
        _add_checkout(checkout, found, name or (egg["name"] if (egg := _EGG.search(url)) else ""))
        return
    base = url.partition("#")[0].rpartition("/")[2].replace("%2B", "+")
    try:
        if base.endswith(".whl"):
            in_file, version, *_ = parse_wheel_filename(base)
        else:
            in_file, version = parse_sdist_filename(base)
    except (InvalidWheelFilename, InvalidSdistFilename):
        if not name and (egg := _EGG.search(url)):
            name = egg["name"]
        if name:
            found.add_unknown(name, _OWN_CODE)
        return
    found.add(name or in_file, str(version))


def _add_checkout(checkout: re.Match[str], found: _Found, name: str, why: str = _OWN_CODE) -> None:
    repository = canonicalize_name(checkout["name"])
    name = name or _OF_REPOSITORY.get(repository, repository)
    tag = _TAG.fullmatch(checkout["commit"] or "")
    if tag is not None:
        found.add(name, tag["release"])
    else:
        found.add_unknown(name, why)


def _applies(marker: Marker) -> bool:
    """Return True if a marker holds on this machine, where the measured releases run. A marker on an extra alone does
    not."""
    try:
        return marker.evaluate()
    except UndefinedEnvironmentName:
        return False


def _packages_in_lock(text: str, file: str) -> InstalledPackages:
    try:
        packages = parsed_toml(text).get("package", [])
    except ValueError as error:
        raise UsageError(f"not valid TOML: {error}", where=file, hint="regenerate it with `uv lock`") from None
    if not isinstance(packages, list) or not packages:
        raise UsageError("not a lock file: it has no [[package]]", where=file, hint=_FREEZE)
    found = _Found()
    for number, package in enumerate(packages, 1):
        try:
            locked = msgspec.convert(package, _LockedPackage)
            if locked.markers and not any(_applies(Marker(text)) for text in locked.markers):
                continue
        except (msgspec.ValidationError, InvalidMarker) as error:
            where = f"{file}: [[package]] {number}"
            raise UsageError(
                f"not in the form that uv writes: {error}", where=where, hint="regenerate it with `uv lock`"
            ) from None
        if (tagged := _tagged(locked)) and found.add(locked.name, tagged) == "":
            continue
        if not locked.version or locked.source.keys() & {"git", "editable", "virtual", "directory"}:
            found.add_unknown(locked.name, _OWN_CODE)
        else:
            found.add(locked.name, locked.version)
    return found.finished()


def _tagged(locked: _LockedPackage) -> str:
    """Return the release of a checkout's tag: ``...?tag=v4.51.3#0123``; empty if there is none."""
    _, has_query, query = str(locked.source.get("git", "")).partition("?")
    wanted = re.match(r"(?:tag|rev)=([^&#]+)", query) if has_query else None
    tag = _TAG.fullmatch(wanted[1]) if wanted is not None else None
    return tag["release"] if tag is not None else ""


def _conda_environment(text: str, file: str) -> InstalledPackages:
    """Return the packages of a conda environment's YAML: ``pytorch=2.5.1=py3.11_cuda``, and those of its ``pip``."""
    try:
        environment = msgspec.yaml.decode(text, type=_CondaEnvironment)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"not a conda environment: {reason}", where=file, hint=_FREEZE) from None
    found = _Found()
    of_pip: list[str] = []
    for one in environment.dependencies:
        if not isinstance(one, str):
            of_pip += one.get("pip", [])
            continue
        name, bounds = _conda_requirement(one.rpartition("::")[2])
        pin = re.fullmatch(r"==([^*,]+)", bounds)
        if pin is not None:
            found.add(name, pin[1])
        elif (specifiers := _specifiers(bounds)) is not None:
            found.add_range(name, specifiers)
        else:
            found.add_unknown(name, _NOT_PINNED)
    pip = _requirements("\n".join(of_pip), file)
    own = found.finished()
    return InstalledPackages(
        versions={**own.versions, **pip.versions},
        unknown={**own.unknown, **pip.unknown},
        unread=pip.unread,
        included=pip.included,
        ranges={**own.ranges, **pip.ranges},
        cuda=pip.cuda or own.cuda,
    )


def _conda_requirement(text: str) -> tuple[str, str]:
    """Return the package and the bounds of conda's ``transformers=4.40``, which is any release that begins so, of
    ``transformers==4.40``, and of ``pytorch=2.5.1=py3.11_cuda``: with a build it is that release."""
    found = re.fullmatch(r"\s*([\w.-]+)\s*([=<>!~ ]?.*)", text)
    name, rest = (found[1], found[2].replace(" ", "")) if found else (text, "")
    fuzzy = re.fullmatch(r"=(\d+(?:\.\d+)*\w*)(?:\.?\*)?(=\S+)?", rest)
    if fuzzy is not None:
        is_exact = fuzzy[2] or (fuzzy[1].count(".") > 1 and "*" not in rest)  # a whole release: nothing else begins so
        rest = f"=={fuzzy[1]}" if is_exact else f"=={fuzzy[1]}.*"
    return CONDA_NAMES.get(name, name), rest


def _specifiers(bounds: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(bounds)
    except InvalidSpecifier:
        return None


class _CondaEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The field that is read of a conda environment."""

    dependencies: list[str | dict[str, list[str]]]


class _LockedPackage(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that are read from a ``[[package]]``."""

    name: str
    version: str = ""
    source: dict[str, Any] = {}
    markers: list[str] = msgspec.field(name="resolution-markers", default_factory=list)
