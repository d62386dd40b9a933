"""Releases of a stack's usual packages that do not run with each other, although no resolver can know it. ``partners.toml``
has them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.specifiers import SpecifierSet

from dsregress.versions.releases import known_releases, sorted_versions
from dsregress.versions.undeclared import UndeclaredBound


def read_partners(content: bytes) -> tuple[UndeclaredBound, ...]:
    """Return the bounds of a table. Raise ValueError if an entry is none."""
    bounds = msgspec.toml.decode(content, type=dict[str, tuple[UndeclaredBound, ...]])["partner"]
    for bound in bounds:
        SpecifierSet(bound.releases), SpecifierSet(bound.versions)  # raises ValueError
    return bounds


#: The bounds of this package's table.
PARTNERS = read_partners(Path(__file__).with_suffix(".toml").read_bytes())


def fitting_partners(unnamed: Collection[str], stacks: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the packages of ``unnamed`` that do not run in one of the stacks, package -> version, each with the newest
    known release that runs in all of them. A package of which there is none is left out. Of two that are both unnamed, the
    one that the bound is about gives way; torch, which is gigabytes and may have no build for this machine, never does."""
    return _chosen(unnamed, stacks, lambda package, stack: reversed(known_releases(package)))


def nearest_partners(unnamed: Collection[str], stacks: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the packages as `fitting_partners`, each with the release that is nearest to its own."""

    def by_distance(package: str, stack: Mapping[str, str]) -> Iterable[str]:
        order = sorted_versions({*known_releases(package), stack[package]})
        return sorted(order, key=lambda one: abs(order.index(one) - order.index(stack[package])))

    return _chosen(unnamed, stacks, by_distance)


def _chosen(
    unnamed: Collection[str],
    stacks: Sequence[Mapping[str, str]],
    candidates: Callable[[str, Mapping[str, str]], Iterable[str]],
) -> dict[str, str]:
    chosen: dict[str, str] = {}
    giving_way = dict.fromkeys(bound.package for bound in PARTNERS if bound.package in unnamed)
    giving_way |= dict.fromkeys(bound.other for bound in PARTNERS if bound.other in unnamed)
    giving_way.pop("torch", None)
    for package in giving_way:
        present = [{**stack, **chosen} for stack in stacks if package in stack]
        if all(_runs(package, stack[package], stack) for stack in present):
            continue
        releases = candidates(package, present[0])
        found = next((one for one in releases if all(_runs(package, one, stack) for stack in present)), None)
        if found is not None:
            chosen[package] = found
    return chosen


def _runs(package: str, version: str, stack: Mapping[str, str]) -> bool:
    with_it = {**stack, package: version}
    return not any(
        package in (bound.package, bound.other)
        and bound.is_about(with_it.get(bound.package, ""))
        and not bound.is_met_by(with_it.get(bound.other, ""))
        for bound in PARTNERS
    )
