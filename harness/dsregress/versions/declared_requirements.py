"""The requirements of releases on other packages that people train with, as known offline: committed data, refreshed by
``nox -s update_pins``. Extras and what only other platforms need are left out."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from dsregress.versions.releases import known_releases, parsed_version, sorted_versions

FILE = Path(__file__).with_name("declared_requirements.json")

#: Package -> its oldest release whose requirements are kept, and packages whose own requirements are not.
_OLDEST = {"transformers": "4.42", "accelerate": "0.30", "peft": "0.11", "trl": "0.9", "datasets": "2.20", "openrlhf": "0.5",
           "llamafactory": "0.9", "axolotl": "0.8", "ms-swift": "3.0", "verl": "0.3"}  # fmt: skip
_OTHERS = frozenset({"deepspeed", "torch", "vllm"})


class ReleaseConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two releases that cannot be installed together."""

    package: str
    version: str
    requirement: str  #: of that release: "transformers>=4.56.2"
    other: str  #: the package that does not satisfy it
    other_version: str

    @property
    def text(self) -> str:
        """The conflict as a clause: ``trl 1.16.0 requires transformers>=4.56.2, not 4.47.0``."""
        return f"{self.package} {self.version} requires {self.requirement}, not {self.other_version}"

    @property
    def nearest(self) -> str:
        """The release of the other package that satisfies it, the next one up, else down; empty if none is known."""
        known = sorted_versions(_known_versions(self.other))
        fitting = [one for one in known if _satisfies(one, _requirement(self.requirement))]
        newer = [one for one in fitting if Version(one) > Version(self.other_version)]
        return next(iter(newer or fitting[::-1]), "")


@functools.cache
def known_requirements() -> dict[str, dict[str, list[str]]]:
    """Return package -> release -> what it requires of other packages: ``transformers<=5.2.0,>=4.55.0``."""
    data: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return data


def conflicts_of(versions: Mapping[str, str]) -> tuple[ReleaseConflict, ...]:
    """Return the conflicts among releases, as far as their requirements are known."""
    return tuple(
        ReleaseConflict(package=package, version=version, requirement=text, other=name, other_version=versions[name])
        for package, version in versions.items()
        for text in known_requirements().get(package, {}).get(version.partition("+")[0], ())
        if (name := _requirement(text).name) in versions and not _satisfies(versions[name], _requirement(text))
    )


def new_conflicts(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[ReleaseConflict, ...]:
    """Return the conflicts among ``new`` releases, without the requirements that the ``old`` ones do not satisfy either."""
    before = {(one.package, one.version, one.requirement) for one in conflicts_of(old)}
    return tuple(one for one in conflicts_of(new) if (one.package, one.version, one.requirement) not in before)


def newest_together(
    old: Mapping[str, str], goals: Mapping[str, str], movable: Collection[str]
) -> tuple[dict[str, str], tuple[ReleaseConflict, ...]]:
    """Return the goals of an upgrade of the ``old`` releases with earlier releases of ``movable`` packages, as the others
    require, and the conflicts for which they moved. A conflict that no release of them ends remains."""
    found, moved = dict(goals), []
    for _ in range(2 * len(goals)):  # each package moves once, or twice by what the others then require
        for one in new_conflicts(old, {**old, **found}):
            package = one.other if one.other in movable else one.package
            release = _newest_fitting(old, {**old, **found}, package) if package in movable else ""
            if release and release != found[package]:
                found[package] = release
                moved.append(one)
                break
        else:
            break
    return found, tuple(moved)


def _newest_fitting(old: Mapping[str, str], versions: Mapping[str, str], package: str) -> str:
    """Return the newest release of a package, not above what it has and not below the old one, that neither requires another
    release of the rest nor is required to be another one; empty if there is none."""
    for release in reversed(sorted_versions(_known_versions(package))):
        is_between = Version(old.get(package, "0")) <= Version(release) <= Version(versions[package])
        if is_between and not any(
            package in (one.package, one.other) for one in new_conflicts(old, {**versions, package: release})
        ):
            return release
    return ""


def _known_versions(package: str) -> Sequence[str]:
    return [*known_requirements().get(package, ())] or known_releases(package)


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
