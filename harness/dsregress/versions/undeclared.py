"""Undeclared needs of releases: they break the import, and no resolver can know them.

The newest release of every package that a stack does not pin is right for a new stack. An old one, with NumPy 1 or an old
`datasets`, would get packages that came years later and whose metadata do not exclude it. Each bound but the first was seen
to fail on import beyond it; the first is pytorch#107302, and "Numpy is not available" in torch 2.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name


class UndeclaredBound(msgspec.Struct, frozen=True):
    """If ``package`` is one of ``releases``, ``other`` must be one of ``versions``."""

    package: str
    releases: str
    other: str
    versions: str


BOUNDS = (
    UndeclaredBound("torch", "<2.3", "numpy", "<2"),  # "compiled using NumPy 1.x cannot be run in NumPy 2"
    UndeclaredBound("deepspeed", "<0.14.4", "numpy", "<2"),  # "cannot import name 'BUFSIZE' from 'numpy'"
    UndeclaredBound("numpy", "<2", "pyarrow", "<26"),  # "pyarrow requires NumPy 2.0 or newer, found 1.26.4"
    UndeclaredBound("datasets", "<2.14.7", "pyarrow", "<21"),  # "module 'pyarrow' has no attribute 'PyExtensionType'"
)


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
