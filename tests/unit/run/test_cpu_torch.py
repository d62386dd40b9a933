"""On a machine without a GPU a day's torch gives way to the nearest with a build for the CPU."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dsregress.config.settings import Settings
from dsregress.envs.recipe import CpuBuilds
from dsregress.model import Stack
from dsregress.run import cpu_torch
from dsregress.versions.stack_plans import StackPlan

LISTED = ("2.13.0+cpu", "2.13.0", "2.9.0rc1", "2.8.0", "2.7.1", "2.6.0", "2.5.1", "2.4.0", "2.4.0+cpu")


class OfIndexes:
    """An installer whose indexes list builds for the CPU of some releases of torch, or have those ``built`` elsewhere."""

    def __init__(self, *built: str, listed: tuple[str, ...] = LISTED) -> None:
        self.built, self.listed = built, listed

    def cpu_builds(self, requirements: list[str], python: str) -> CpuBuilds:
        return CpuBuilds(requirements={"torch": "x"} if requirements == [f"torch=={one}" for one in self.built] else {})

    def as_of_day(self, day: str) -> OfIndexes:
        assert day == ""
        return self

    def published(self, package: str, python: str = "") -> tuple[str, ...]:
        assert (package, python) == ("torch", "3.11")
        return self.listed


def plan(*torch: str) -> StackPlan:
    stacks = tuple(Stack(python="3.11", versions={"torch": one, "transformers": "4.51.3"}) for one in torch)
    return StackPlan(stacks=stacks, baseline=stacks[0], axes=("torch",) if len(torch) > 1 else ("transformers",))


def taken(planned: StackPlan, installer: Any, as_of: str = "2025-06-06", **given: str) -> StackPlan:
    settings = msgspec.structs.replace(Settings(), as_of=as_of)
    return cpu_torch.with_torch_for_here(planned, given, settings, installer)


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_torch.sys, "platform", "linux")
    monkeypatch.setattr(cpu_torch.hardware, "has_gpu", lambda: False)


@pytest.mark.parametrize(("of_day", "nearest"), [("2.7.1", "2.13.0"), ("2.6.0", "2.4.0")])
def test_the_nearest_torch_with_a_build_for_the_cpu_is_taken_and_told(of_day: str, nearest: str) -> None:
    found = taken(plan(of_day), OfIndexes())
    assert [stack.versions for stack in found.stacks] == [{"torch": nearest, "transformers": "4.51.3"}]
    assert found.baseline == found.stacks[0]
    assert found.notes == (
        f"no index that can be reached has torch {of_day}, of 2025-06-06, for the CPU: torch {nearest} is taken, the "
        f"nearest that is there; --torch {of_day} installs its CUDA packages, too",
    )


def test_a_torch_of_the_day_with_a_build_for_the_cpu_stays() -> None:
    assert taken(plan("2.7.1"), OfIndexes("2.7.1")) == plan("2.7.1")


def test_a_torch_that_is_named_or_compared_stays() -> None:
    assert taken(plan("2.7.1"), OfIndexes(), torch="2.7.1") == plan("2.7.1")
    assert taken(plan("2.7.1", "2.8.0"), OfIndexes()) == plan("2.7.1", "2.8.0")


def test_without_a_day_every_torch_stays() -> None:
    assert taken(plan("2.7.1"), OfIndexes(), as_of="") == plan("2.7.1")


def test_the_torch_of_the_day_stays_where_no_build_for_the_cpu_is_listed() -> None:
    assert taken(plan("2.7.1"), OfIndexes(listed=("2.8.0", "2.7.1"))) == plan("2.7.1")
