"""Scenarios as of a day: the packages that they pin give way to the newest of that day. Pure."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Mapping, Sequence

from dsregress.model import NotInstalled, Stack
from dsregress.probe.scenario import PACKAGES, Scenario


def scenarios_of_the_day(
    scenarios: Mapping[str, Scenario],
    globs: Sequence[str],
    base: Stack,
    is_known: Callable[[str, str], bool],
    newest_that_fit: Callable[[Sequence[str]], Mapping[str, str] | NotInstalled],
) -> dict[str, Scenario]:
    """Return the scenarios, those with these names as of the day: an index is asked about no other. Where one pins a
    release that is not known then, all its packages that ``base`` lacks are the newest that go with it; if none do, they
    stay, and cannot be installed."""
    chosen = {name for glob in globs for name in fnmatch.filter(scenarios, glob)}
    dated = {name: _of_the_day(scenarios[name], base, is_known, newest_that_fit) for name in sorted(chosen)}
    return {**scenarios, **dated}


def _of_the_day(
    scenario: Scenario,
    base: Stack,
    is_known: Callable[[str, str], bool],
    newest_that_fit: Callable[[Sequence[str]], Mapping[str, str] | NotInstalled],
) -> Scenario:
    pinned: Mapping[str, str] = scenario.parameters.get(PACKAGES, {})
    own = {name: version for name, version in pinned.items() if version and name not in base.versions}
    if all(is_known(name, version) for name, version in own.items()):
        return scenario
    found = newest_that_fit(list(own))
    if not isinstance(found, Mapping):
        return scenario
    return dataclasses.replace(scenario, parameters={**scenario.parameters, PACKAGES: {**pinned, **found}})
