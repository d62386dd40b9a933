"""Public addresses of packages: their releases, and their files as released. Nothing here is fetched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

_PYPI = "https://pypi.org/project"


class _Repository(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sources of a package. Each tags its releases ``v1.2.3``."""

    url: str
    folder: str = ""  #: in it, which holds the package


_REPOSITORIES = msgspec.toml.decode(
    Path(__file__).with_name("repositories.toml").read_bytes(), type=dict[str, _Repository]
)

#: ``deepspeed/runtime/zero/stage3.py:1234 in step``: a place in the code, as results have it.
_PLACE = re.compile(r"(?P<file>(?P<package>\w+)/(?:[\w-]+/)*[\w-]+\.py):(?P<line>\d+)\b")

#: At the end of a squashed commit's subject.
_PULL = re.compile(r"\(#(?P<number>\d+)\)$")

_THREAD = re.compile(r"https://github\.com/[\w.-]+/(?P<repository>[\w.-]+)/(?:issues|pull)/(?P<number>\d+)")


def release_url(package: str, version: str) -> str:
    """Return the page of a release at the index. A build (``2.13.0+cpu``) has that of its release."""
    return f"{_PYPI}/{quote(package)}/{quote(_released(version))}/"


def tag_url(package: str, version: str) -> str:
    """Return the page of a release's sources; empty if its repository is not known."""
    if package not in _REPOSITORIES:
        return ""
    return f"{_REPOSITORIES[package].url}/tree/v{quote(_released(version))}"


def compare_url(package: str, before: str, after: str) -> str:
    """Return the page of the changes between two releases; empty if the package's repository is not known."""
    if package not in _REPOSITORIES:
        return ""
    return f"{_REPOSITORIES[package].url}/compare/v{quote(_released(before))}...v{quote(_released(after))}"


def pull_url(package: str, subject: str) -> str:
    """Return the page of the pull request that a commit's subject names, ``... (#7665)``; empty if it names none, or the
    package's repository is not known."""
    found = _PULL.search(subject)
    return f"{_REPOSITORIES[package].url}/pull/{found['number']}" if found and package in _REPOSITORIES else ""


def place_url(place: str, versions: Mapping[str, str]) -> str:
    """Return the page of a line of a package's file, as released; empty if the package, or its version, is not known."""
    found = _PLACE.match(place)
    if found is None or found["package"] not in _REPOSITORIES or found["package"] not in versions:
        return ""
    repository = _REPOSITORIES[found["package"]]
    tag = f"v{quote(_released(versions[found['package']]))}"
    return f"{repository.url}/blob/{tag}/{repository.folder}{found['file']}#L{found['line']}"


def thread_name(address: str) -> str:
    """Return ``DeepSpeed#7116`` for the address of an issue or a pull request, and any other address unchanged."""
    found = _THREAD.fullmatch(address)
    return f"{found['repository']}#{found['number']}" if found else address


def _released(version: str) -> str:
    return version.partition("+")[0]
