"""The releases on the way of an upgrade that a fault rules out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.effects import decides
from dsregress.advisories.matching import (
    KnownJob,
    Match,
    Matched,
    is_affected,
    known_versions,
    match_advisories,
    parsed,
)
from dsregress.advisories.usual_jobs import usually_concerns


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Releases on the way that a fault rules out, which the target has not."""

    package: str
    releases: tuple[str, ...]  #: in order
    matched: Matched


def skipped_releases(
    advisories: Sequence[Advisory], old: KnownJob, new: KnownJob, ends: Iterable[Matched]
) -> Iterator[Skipped]:
    """Yield the faults that releases between the two have, and neither of the two: ``ends`` are the answers for these."""
    at_ends = {one.advisory.id for one in ends if one.match is not Match.FREE}
    others = [one for one in advisories if one.id not in at_ends and decides(one) and not one.withdrawn]
    for package, target in new.versions.items():
        start = old.versions.get(package, target)
        between = [one for one in known_versions(others, package) if parsed(start) < parsed(one) < parsed(target)]
        hit: dict[str, tuple[Matched, list[str]]] = {}
        for version in between:
            tried = new.changed(versions={package: version})
            for one in match_advisories(others, tried):
                has_it = one.match is Match.CONCERNED or usually_concerns(one, tried)
                if has_it and is_ranged(one.advisory, package, version):
                    hit.setdefault(one.advisory.id, (one, []))[1].append(version)
        for matched, releases in hit.values():
            yield Skipped(package=package, releases=tuple(releases), matched=matched)


def is_ranged(advisory: Advisory, package: str, version: str) -> bool:
    """Return True if a release of a package is affected by the advisory's own range."""
    return any(is_affected(version, one.affected, one.unaffected) for one in advisory.ranges if one.package == package)
