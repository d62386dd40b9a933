"""The requirements of releases on other packages that people train with, as known offline: committed data, refreshed by
``nox -s update_pins``. Extras and what only other platforms need are left out."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from dsregress.versions.partners import PARTNERS
from dsregress.versions.releases import known_releases, parsed_version, sorted_versions
from dsregress.versions.undeclared import BOUNDS

FILE = Path(__file__).with_name("declared_requirements.json")

#: Package -> its oldest release whose requirements are kept, and packages whose own requirements are not.
_OLDEST = {"transformers": "4.42", "accelerate": "0.30", "peft": "0.11", "trl": "0.9", "datasets": "2.20", "openrlhf": "0.5",
           "llamafactory": "0.9", "axolotl": "0.8", "ms-swift": "3.0", "verl": "0.3", "vllm": "0.6"}  # fmt: skip
_OTHERS = frozenset({"deepspeed", "torch"})

#: Bounds that no metadata declare.
UNDECLARED = (*PARTNERS, *BOUNDS)


class ReleaseConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two releases that cannot be installed together; or, if not ``declared``, that do not run together."""

    package: str
    version: str
    requirement: str  #: of that release: "transformers>=4.56.2"
    other: str  #: the package that does not satisfy it
    other_version: str
    other_range: str = ""  #: the range of which that is the newest release, if no release is chosen
    declared: bool = True  #: in the metadata of that release

    @property
    def text(self) -> str:
        """The conflict as a clause: ``trl 1.16.0 requires transformers>=4.56.2, not 4.47.0``."""
        verb = "requires" if self.declared else "runs only with"
        return f"{self.package} {self.version} {verb} {self.requirement}, not {self.other_range or self.other_version}"


@functools.cache
def known_requirements() -> dict[str, dict[str, list[str]]]:
    """Return package -> release -> what it requires of other packages: ``transformers<=5.2.0,>=4.55.0``."""
    data: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return data


def conflicts_of(versions: Mapping[str, str], ranges: Mapping[str, str] = {}) -> tuple[ReleaseConflict, ...]:
    """Return the conflicts among releases, and with ranges of which no release is one that they require, as far as their
    requirements are known."""
    return tuple(
        ReleaseConflict(
            package=package,
            version=version,
            requirement=text,
            other=name,
            other_version=other,
            other_range="" if name in versions else ranges[name],
            declared=is_declared,
        )
        for package, version in versions.items()
        for text, is_declared in _requirements_of(package, version)
        if (other := _unsatisfied(_requirement(text), versions, ranges))
        for name in [_requirement(text).name]
    )


def _unsatisfied(requirement: Requirement, versions: Mapping[str, str], ranges: Mapping[str, str]) -> str:
    """Return the release that a requirement rules out, the newest of a range; empty if it does not, or none is known."""
    name = requirement.name
    found = [versions[name]] if name in versions else releases_within(name, ranges[name]) if name in ranges else []
    return found[-1] if found and not any(_satisfies(one, requirement) for one in found) else ""


def releases_within(package: str, bounds: str) -> list[str]:
    """Return the known final releases of a package within bounds, the oldest first."""
    return list(SpecifierSet(bounds).filter(committed_releases(package)))


def _requirements_of(package: str, version: str) -> Iterator[tuple[str, bool]]:
    """Yield the requirements of a release, and if each is declared."""
    for text in _declared_by(package, version) or ():
        yield text, True
    for bound in UNDECLARED:
        if bound.package == package and bound.is_about(version):
            yield f"{bound.other}{bound.versions}", False


def _declared_by(package: str, version: str) -> Sequence[str] | None:
    """Return what a release declares, of whatever build and however it is written (4.48 is 4.48.0); None if not known."""
    known = known_requirements().get(package, {})
    release = version.partition("+")[0]
    if release in known:
        return known[release]
    same = parsed_version(release)
    return next((texts for one, texts in known.items() if parsed_version(one) == same), None)


def ending_releases(
    conflicts: Iterable[ReleaseConflict], old: Mapping[str, str], new: Mapping[str, str]
) -> dict[str, str]:
    """Return package -> the release that ends the conflicts of going from the ``old`` to the ``new`` releases: a newer one
    of a package that stays and requires another release of one that moves, else the next one up, else down, of the package
    that is required to be another one. Empty unless all can be ended."""
    found: dict[str, str] = {}
    by_other: dict[str, list[ReleaseConflict]] = {}
    for one in conflicts:
        is_lifted = old.get(one.other) != new.get(one.other) and old.get(one.package) == one.version
        newer = _next_without_conflict(new, one.package) if is_lifted else ""
        if newer:
            found[one.package] = newer
        else:
            by_other.setdefault(one.other, []).append(one)
    for other, ones in by_other.items():
        fitting = [
            release
            for release in committed_releases(other)
            if all(_satisfies(release, _requirement(one.requirement)) for one in ones)
        ]
        above = [release for release in fitting if Version(release) > Version(ones[0].other_version)]
        if not fitting:
            return {}
        found[other] = above[0] if above else fitting[-1]
    return found


def _next_without_conflict(versions: Mapping[str, str], package: str) -> str:
    """Return the next newer release of a package that has no conflict with the rest; empty if there is none."""
    for release in committed_releases(package):
        is_newer = Version(release) > Version(versions[package])
        if is_newer and not _is_among(package, conflicts_of({**versions, package: release})):
            return release
    return ""


def _is_among(package: str, conflicts: Iterable[ReleaseConflict]) -> bool:
    return any(package in (one.package, one.other) for one in conflicts)


def unknown_requirements(versions: Mapping[str, str]) -> tuple[str, ...]:
    """Return the releases whose requirements are not known, of packages of which others are: ``axolotl 0.9.2``."""
    known = known_requirements()
    return tuple(
        f"{package} {version}"
        for package, version in versions.items()
        if package in known and _declared_by(package, version) is None
    )


def new_conflicts(
    old: Mapping[str, str], new: Mapping[str, str], ranges: Mapping[str, str] = {}
) -> tuple[ReleaseConflict, ...]:
    """Return the conflicts among ``new`` releases, without the requirements that the ``old`` ones do not satisfy either."""
    before = {(one.package, one.version, one.requirement) for one in conflicts_of(old, ranges)}
    found = conflicts_of(new, ranges)
    return tuple(one for one in found if (one.package, one.version, one.requirement) not in before)


def newest_together(
    old: Mapping[str, str], goals: Mapping[str, str], movable: Collection[str], ranges: Mapping[str, str] = {}
) -> tuple[dict[str, str], tuple[ReleaseConflict, ...]]:
    """Return the goals of an upgrade of the ``old`` releases with earlier releases of ``movable`` packages, as the others
    require, and the conflicts for which they moved. A conflict that no release of them ends remains."""
    found, moved = dict(goals), []
    for _ in range(2 * len(goals)):  # each package moves once, or twice by what the others then require
        for one in new_conflicts(old, {**old, **found}, ranges):
            fitting = {
                package: _newest_fitting(old, {**old, **found}, package, ranges)
                for package in (one.other, one.package)
                if package in movable
            }
            package, release = next((each for each in fitting.items() if each[1]), ("", ""))
            if release and release != found[package]:
                found[package] = release
                moved.append(one)
                break
        else:
            break
    return found, tuple(moved)


def _newest_fitting(
    old: Mapping[str, str], versions: Mapping[str, str], package: str, ranges: Mapping[str, str]
) -> str:
    """Return the newest release of a package, not above what it has and not below the old one, that neither requires another
    release of the rest nor is required to be another one; empty if there is none."""
    for release in reversed(committed_releases(package)):
        is_between = Version(old.get(package, "0")) <= Version(release) <= Version(versions[package])
        if is_between and not _is_among(package, new_conflicts(old, {**versions, package: release}, ranges)):
            return release
    return ""


def committed_releases(package: str) -> tuple[str, ...]:
    """Return the committed final releases of a package, the oldest first: those of which requirements are known, or of a
    package of which none are, all."""
    return sorted_versions(known_requirements().get(package, ())) or known_releases(package)


@functools.cache
def _requirement(text: str) -> Requirement:
    return Requirement(text)


def _satisfies(version: str, requirement: Requirement) -> bool:
    """Return True for what is no version as well: a commit, of which nothing is known."""
    parsed = parsed_version(version)
    return parsed is None or requirement.specifier.contains(parsed, prereleases=True)


def write_requirements(
    published: Callable[[str], Sequence[str]], declared: Callable[[str, str], Sequence[str] | None]
) -> None:
    """Replace the data by that of the final releases that are ``published`` now. What a release has ``declared`` does not
    change, and is asked for once; None if it cannot be read."""
    known = known_requirements() if FILE.exists() else {}
    found: dict[str, dict[str, list[str]]] = {}
    for package, oldest in sorted(_OLDEST.items()):
        mine = found.setdefault(package, {})
        for version in sorted_versions(published(package)):
            if Version(version) < Version(oldest) or Version(version).is_prerelease:
                continue
            kept = known.get(package, {}).get(version)
            read = declared(package, version) if kept is None else kept
            if read is not None:
                mine[version] = _among_packages(read)
    blocks = (
        f"  {json.dumps(package)}: {{\n"
        + ",\n".join(f"    {json.dumps(version)}: {json.dumps(texts)}" for version, texts in releases.items())
        + "\n  }"
        for package, releases in found.items()
    )
    FILE.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")
    known_requirements.cache_clear()


def _among_packages(declared: Sequence[str]) -> list[str]:
    """Return the requirements that limit the releases of packages known here."""
    limits = []
    for text in declared:
        try:
            one = Requirement(text)
        except InvalidRequirement:  # of the days before PEP 508
            continue
        name = str(canonicalize_name(one.name))
        is_needed = one.marker is None or one.marker.evaluate({"extra": ""})
        if is_needed and one.specifier and (name in _OLDEST or name in _OTHERS):
            limits.append(f"{name}{one.specifier}")
    return sorted(limits)
