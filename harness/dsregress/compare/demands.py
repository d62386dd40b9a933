"""Requirements of packages on each other: OpenRLHF 0.5.9 requires deepspeed==0.16.3. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from dsregress.compare.comparison import Group
from dsregress.model import Stack
from dsregress.wording.quantities import listing, plural

#: Findings of these kinds are no reason to avoid a release.
_HARMLESS = frozenset(("changed", "improvement"))


def demand_notes(demands: Mapping[str, Sequence[str]], stacks: Sequence[Stack], groups: Iterable[Group]) -> list[str]:
    """Return a line for each package that requires releases with findings of a package that varies, or releases of which no
    compared stack has one.

    ``demands`` maps ``openrlhf 0.5.9`` to its requirements.
    """
    findings: dict[str, int] = {}
    for group in groups:
        for found in group.findings:
            if found.relevant and found.kind not in _HARMLESS:
                findings[found.stack] = findings.get(found.stack, 0) + 1
    return [
        f"{package} requires {requirement}, {consequence}"
        for package, requirements in demands.items()
        for requirement in requirements
        if (consequence := _consequence(requirement, stacks, findings)) is not None
    ]


def _consequence(requirement: str, stacks: Sequence[Stack], findings: Mapping[str, int]) -> str | None:
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return None
    releases: dict[Version, int] = {}
    for stack in stacks:
        try:
            version = Version(stack.versions.get(parsed.name, ""))
        except InvalidVersion:  # a commit, or a stack without the package
            continue
        releases[version] = releases.get(version, 0) + findings.get(stack.id, 0)
    if len(releases) < 2:
        return None
    met = [version for version in releases if parsed.specifier.contains(version, prereleases=True)]
    bad = [f"{version} ({plural(releases[version], 'finding')})" for version in sorted(met) if releases[version]]
    if met:
        return f"which has problems here: {listing(bad)}" if len(bad) == len(met) else None
    around = _around(parsed, releases)
    if around and all(releases[version] for version in around):
        return f"which was not measured here; {listing([str(version) for version in around])} around it have problems"
    return "which was not measured here"


def _around(requirement: Requirement, releases: Mapping[Version, int]) -> list[Version]:
    """Return the measured releases next below and next above the required one; none unless exactly one release is
    required."""
    only = list(requirement.specifier)
    if len(only) != 1 or only[0].operator != "==" or only[0].version.endswith("*"):
        return []
    wanted = Version(only[0].version)
    below, above = ([v for v in releases if v < wanted], [v for v in releases if v > wanted])
    return [max(below), min(above)] if below and above else []
