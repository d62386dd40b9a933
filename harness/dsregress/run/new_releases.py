"""Releases that a package index has and that were not measured, each with the release before it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

import msgspec
from packaging.version import Version

from dsregress.versions.releases import sorted_versions


class NewRelease(msgspec.Struct, frozen=True):
    """A release, and the one before it, beside which it is measured."""

    package: str
    version: str
    before: str

    @property
    def name(self) -> str:
        """The package and the version: ``peft-0.22.0``."""
        return f"{self.package}-{self.version}"


def newest_release(package: str, published: Iterable[str]) -> NewRelease | None:
    """Return the newest final release among all that are ``published``; None if there is none before it."""
    return next(reversed(_final_releases(package, published)), None)


def releases_since(package: str, published: Iterable[str], then: Collection[str]) -> list[NewRelease]:
    """Return the final releases, the oldest first, that are newer than all of ``then``: those that were published at an
    earlier time. A release that mends an older series, as 4.57.6 after 5.0.0, is not among them."""
    newest = max((Version(one) for one in sorted_versions(then)), default=Version("0"))
    return [one for one in _final_releases(package, published) if Version(one.version) > newest]


def _final_releases(package: str, published: Iterable[str]) -> list[NewRelease]:
    final = [text for text in sorted_versions(published) if not Version(text).is_prerelease]
    return [NewRelease(package, version, before) for before, version in itertools.pairwise(final)]
