"""Undeclared needs of releases: they break the import, and no resolver can know them.

The newest release of every package that a stack does not pin is right for a new stack. An old one, with NumPy 1 or an old
`datasets`, would get packages that came years later and whose metadata do not exclude it. ``undeclared.toml`` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from dsregress.versions.releases import parsed_version


class UndeclaredBound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """If ``package`` is one of ``releases``, ``other`` must be one of ``versions``."""

    package: str
    releases: str
    other: str
    versions: str

    def is_about(self, version: str) -> bool:
        """Return True if a release of the package has the bound; False for a commit, of which nothing is known."""
        return _is_in(version, self.releases, unknown=False)

    def is_met_by(self, version: str) -> bool:
        """Return True if a release of the other package is within the bound, and for a commit."""
        return _is_in(version, self.versions, unknown=True)


def _is_in(version: str, specifier: str, *, unknown: bool) -> bool:
    if parsed_version(version) is None:
        return unknown
    return SpecifierSet(specifier).contains(version, prereleases=True)


def read_bounds(content: bytes) -> tuple[UndeclaredBound, ...]:
    """Return the bounds of a table. Raise ValueError if an entry is none."""
    bounds = msgspec.toml.decode(content, type=dict[str, tuple[UndeclaredBound, ...]])["bound"]
    for bound in bounds:
        SpecifierSet(bound.releases), SpecifierSet(bound.versions)  # raises ValueError
    return bounds


BOUNDS = read_bounds(Path(__file__).with_suffix(".toml").read_bytes())


def broken(pins: Sequence[str]) -> tuple[str, ...]:
    """Return the undeclared requirements that ``pins`` (``numpy==1.26.4``) do not meet."""
    pinned: dict[str, list[str]] = {}
    for line in pins:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        versions = [one.version for one in requirement.specifier if one.operator in ("==", "===")]
        pinned.setdefault(canonicalize_name(requirement.name), []).extend(versions)
    return tuple(
        f"{bound.other}{bound.versions}"
        for bound in BOUNDS
        if _any(pinned.get(bound.package, ()), bound.releases, True)
        and _any(pinned.get(bound.other, ()), bound.versions, False)
    )


def _any(versions: Sequence[str], specifier: str, inside: bool) -> bool:
    return any(SpecifierSet(specifier).contains(version, prereleases=True) is inside for version in versions)
