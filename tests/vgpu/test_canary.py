"""A canary finds out whether what replaces names of packages fits their releases."""

from __future__ import annotations

import types
from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from vgpu import attaching, canary
from vgpu.fault import BrokenPart
from vgpu.replacing import IN_PLACE, Patches
from vgpu.sim import Simulation


def original(tensor: object, group: object, *rest: object, timeout: object, more: object = None) -> None:
    """As a release has it."""


#: What a harness has in its place -> why it cannot be called as a release must call it.
REPLACEMENTS: dict[Callable[..., object], str] = {
    lambda *args, **kwargs: None: "",
    lambda tensor, group, timeout: None: "",
    lambda tensor, group=None, *, timeout=None: None: "",
    lambda tensor, *, timeout: None: "too many positional arguments",
    lambda tensor, group: None: "got an unexpected keyword argument 'timeout'",
}


@pytest.mark.parametrize(("replacement", "refusal"), REPLACEMENTS.items(), ids=range(len(REPLACEMENTS)))
def test_a_replacement_takes_what_the_original_requires(replacement: Callable[..., object], refusal: str) -> None:
    module = types.ModuleType("framework")
    vars(module)["reduce"] = original
    before = dict(IN_PLACE)  # some replacements are there for good
    with Patches("tried") as patches:
        patches.replace(module, "reduce", replacement)
        if not refusal:
            canary.assert_fits()
        else:
            with pytest.raises(BrokenPart) as caught:
                canary.assert_fits()
            assert str(caught.value) == f"what replaces framework.reduce does not fit this release: {refusal}"
    assert before == IN_PLACE
    canary.assert_fits()


def test_a_little_is_trained_on_the_virtual_card() -> None:
    with Simulation() as simulation, simulation.meter, attaching.attached("meta", simulation.mode):
        assert len(IN_PLACE) > 100
        canary.assert_fits()
        canary.train_a_little("cuda")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch 2.13 renames collectives
def test_a_little_is_trained_without_one() -> None:
    canary.train_a_little("cpu")
