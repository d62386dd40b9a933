"""As of a day, a scenario has the packages of that day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsregress.model import Failed, NotInstalled, Stack
from dsregress.probe.scenario import PACKAGES, Scenario
from dsregress.run.dated_scenarios import scenarios_of_the_day

BASE = Stack(python="3.11", versions={"torch": "2.9.1", "transformers": "4.57.3"})
NEWEST = {"trl": "0.26.2", "datasets": "4.4.2"}


def scenario(packages: Mapping[str, str]) -> Scenario:
    return Scenario(
        version=1,
        summary="",
        framework="program",
        parameters={PACKAGES: dict(packages), "steps": 1},
        devices={"cpu": {}},
    )


def packages_then(packages: Mapping[str, str], known: Mapping[str, str], *, fits: bool = True) -> Mapping[str, str]:
    """The packages of a scenario on a day on which these releases are known."""

    def newest(names: Sequence[str]) -> Mapping[str, str] | NotInstalled:
        return {name: NEWEST[name] for name in names} if fits else Failed("install", "no solution")

    found = scenarios_of_the_day(
        {"it": scenario(packages)}, ["i*"], BASE, lambda name, version: known.get(name) == version, newest
    )
    then: Mapping[str, str] = found["it"].parameters[PACKAGES]
    return then


def test_pins_that_are_known_stay() -> None:
    assert packages_then({"trl": "0.24.0"}, known={"trl": "0.24.0"}) == {"trl": "0.24.0"}


def test_if_one_came_later_all_are_the_newest_that_go_together() -> None:
    pinned = {"trl": "1.16.0", "datasets": "4.0.0"}
    assert packages_then(pinned, known={"datasets": "4.0.0"}) == NEWEST


def test_what_the_stack_has_is_the_stacks() -> None:
    pinned = {"transformers": "5.24.0", "trl": "0.24.0"}
    assert packages_then(pinned, known={"trl": "0.24.0"}) == pinned


def test_if_nothing_goes_together_the_pins_stay_and_say_why_when_they_are_installed() -> None:
    assert packages_then({"trl": "1.16.0"}, known={}, fits=False) == {"trl": "1.16.0"}


def test_a_package_that_a_scenario_goes_without_is_looked_up_nowhere() -> None:
    assert packages_then({"trl": "0.24.0", "flash-attn": ""}, known={"trl": "0.24.0"}) == {
        "trl": "0.24.0",
        "flash-attn": "",
    }
    assert packages_then({"trl": "1.16.0", "flash-attn": ""}, known={}) == {"trl": "0.26.2", "flash-attn": ""}


def test_scenarios_that_are_not_selected_stay_and_no_index_is_asked_about_them() -> None:
    given = {"it": scenario({}), "other": scenario({"trl": "1.16.0"})}

    def asked(*_: object) -> bool:
        raise AssertionError

    assert scenarios_of_the_day(given, ["it"], BASE, asked, lambda names: {}) == given
