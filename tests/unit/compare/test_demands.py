"""What packages demand of each other, as notes."""

from dsregress.compare.comparison import Group
from dsregress.compare.demands import demand_notes
from dsregress.compare.metrics import DEVICE_RETAINED
from dsregress.model import Finding, Stack

DEMANDS = {"openrlhf 0.5.9": ["deepspeed==0.16.3"]}


def _stacks(*releases: str) -> list[Stack]:
    return [Stack(python="3.11", versions={"deepspeed": release}) for release in releases]


def _held_more(stack: Stack) -> Group:
    found = Finding(
        stack=stack.id, scenario="ppo", variant="base", device="sim", metric=DEVICE_RETAINED.name, phase="backward",
        kind="regression", value=2, baseline_value=1, ratio=2.0, unit="bytes", significant=True, relevant=True, sentence="",
    )  # fmt: skip
    return Group(found)


def test_a_release_with_problems_that_a_package_requires() -> None:
    old, required = _stacks("0.15.0", "0.16.3")

    assert demand_notes(DEMANDS, [old, required], [_held_more(required)]) == [
        "openrlhf 0.5.9 requires deepspeed==0.16.3, which has problems here: 0.16.3 (1 finding)"
    ]
    assert demand_notes(DEMANDS, [old, required], []) == []


def test_a_release_between_two_with_problems() -> None:
    old, below, above = _stacks("0.15.0", "0.16.2", "0.16.4")

    assert demand_notes(DEMANDS, [old, below, above], [_held_more(below), _held_more(above)]) == [
        "openrlhf 0.5.9 requires deepspeed==0.16.3, which was not measured here; 0.16.2, 0.16.4 around it have problems"
    ]
    assert demand_notes(DEMANDS, [old, below, above], [_held_more(above)]) == [
        "openrlhf 0.5.9 requires deepspeed==0.16.3, which was not measured here"
    ]


def test_a_package_that_does_not_vary() -> None:
    assert demand_notes(DEMANDS, _stacks("0.16.4"), []) == []
