"""Which stacks are compared, and with what."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.versions.stacks import Plan, plan

TABLE = {
    "torch": "2.13.0",
    "transformers": "4.57.6",
    "deepspeed": ("0.15.0", "0.16.4", "0.16.8"),
}
NAMED = {"report": {"torch": "2.5.1", "deepspeed": "0.16.3"}}


def planned(overrides: dict[str, str] | None = None, **more: object) -> Plan:
    arguments: dict[str, object] = {"table": TABLE, "baseline": "0.15.0", "python": "3.11", "named": NAMED, **more}
    return plan(overrides=overrides, **arguments)  # type: ignore[arg-type]  # keyword by keyword


def column(result: Plan, package: str) -> list[str]:
    return [stack.versions[package] for stack in result.stacks]


def test_the_default_varies_the_package_that_has_a_list() -> None:
    result = planned()
    assert column(result, "deepspeed") == ["0.15.0", "0.16.4", "0.16.8"]
    assert result.axes == ("deepspeed",)
    assert result.baseline is result.stacks[0]
    assert [stack.label for stack in result.stacks] == ["0.15.0", "0.16.4", "0.16.8"]


def test_overriding_the_varied_package_keeps_the_baseline_in_front() -> None:
    assert column(planned({"deepspeed": "0.16.7,0.15.0"}), "deepspeed") == ["0.15.0", "0.16.7"]
    assert column(planned({"deepspeed": "0.16.7"}), "deepspeed") == ["0.15.0", "0.16.7"]
    assert column(planned({"deepspeed": "0.16.7"}, chosen="0.16.0"), "deepspeed") == ["0.16.0", "0.16.7"]


def test_another_axis_stands_on_the_newest_configured_release() -> None:
    result = planned({"transformers": "4.49.*,4.56.0"})
    assert column(result, "transformers") == ["4.49.0", "4.56.0"]
    assert set(column(result, "deepspeed")) == {"0.16.8"}
    assert set(column(result, "torch")) == {"2.13.0"}
    assert result.axes == ("transformers",)


def test_one_version_of_another_axis_is_compared_with_the_configured_one() -> None:
    assert column(planned({"transformers": "4.49.0"}), "transformers") == ["4.57.6", "4.49.0"]


def test_a_chosen_baseline_belongs_to_the_axis() -> None:
    assert column(planned({"torch": "2.6.0,2.7.0"}, chosen="2.5.1"), "torch") == ["2.5.1", "2.6.0", "2.7.0"]


def test_several_axes_make_the_product() -> None:
    result = planned({"torch": "2.6.0,2.7.0", "deepspeed": "0.16.4"})
    assert list(zip(column(result, "torch"), column(result, "deepspeed"))) == [
        ("2.6.0", "0.15.0"),
        ("2.6.0", "0.16.4"),
        ("2.7.0", "0.15.0"),
        ("2.7.0", "0.16.4"),
    ]
    assert set(result.axes) == {"torch", "deepspeed"}
    assert result.stacks[1].label == "torch 2.6.0, deepspeed 0.16.4"


def test_a_named_stack_is_compared_with_the_baseline_inside_itself() -> None:
    result = planned(name="report")
    assert column(result, "deepspeed") == ["0.15.0", "0.16.3"]
    assert set(column(result, "torch")) == {"2.5.1"}
    assert result.stacks[1].label == "report: 0.16.3"


def test_an_unknown_stack_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no stack is named 'reprot'; did you mean report\?"):
        planned(name="reprot")


def test_a_package_outside_the_stack_is_refused() -> None:
    with pytest.raises(UsageError, match="'numpy' is not part of the stack"):
        planned({"numpy": "2.0.0"})


def test_a_baseline_that_means_several_releases_is_refused() -> None:
    with pytest.raises(UsageError, match=r"baseline '0.16.\*' means 10 releases; name exactly one"):
        planned(chosen="0.16.*")


def test_a_release_that_is_not_committed_is_asked_for_once_it_is_named() -> None:
    asked: list[str] = []

    def published(package: str) -> tuple[str, ...]:
        asked.append(package)
        return ("0.15.0", "99.0.0", "99.0.0+cpu", "0.16.4.dev3", "not a version")

    assert column(planned({"deepspeed": "0.16.4"}, published=published), "deepspeed") == ["0.15.0", "0.16.4"]
    assert asked == []
    assert column(planned({"deepspeed": "99.*"}, published=published), "deepspeed") == ["0.15.0", "99.0.0"]
    assert asked == ["deepspeed"]


def test_a_framework_of_ones_own_is_varied_alike() -> None:
    result = plan(
        table={"mine": ("1.0", "2.0")}, baseline="1.0", python="3.11", published=lambda package: ("1.0", "2.0", "3.0")
    )
    assert column(result, "mine") == ["1.0", "2.0"]
    assert result.stacks[0].id == "py3.11-mine1.0"
