"""An effective configuration as dotted keys."""

from __future__ import annotations

from enum import Enum

from dsregress.probe.workloads.flatten import flatten


def test_a_configuration_of_any_objects_becomes_dotted_scalars() -> None:
    class Kind(Enum):
        CPU = "cpu"

    found = flatten(
        "x", {"zero": {"stage": 3, "device": Kind.CPU, "sizes": [1, 2]}, "_hidden": True, "module": object()}
    )
    assert found == {"x.hidden": True, "x.zero.device": "cpu", "x.zero.sizes": "1, 2", "x.zero.stage": 3}


def test_numbers_that_json_does_not_have_are_spelled_out() -> None:
    assert flatten("x", {"every": float("inf"), "scale": 1.5}) == {"x.every": "inf", "x.scale": 1.5}
