"""Which stacks are compared, and with what."""

from __future__ import annotations

import re

import pytest

from dsregress.errors import EnvironmentUnavailable, Offline, UsageError
from dsregress.versions.stack_plans import ConfiguredStacks, StackPlan, of_id, plan_stacks

TABLE = {
    "torch": "2.13.0",
    "transformers": "4.57.6",
    "deepspeed": ("0.15.0", "0.16.4", "0.16.8"),
}
NAMED = {"report": {"torch": "2.5.1", "deepspeed": "0.16.3"}}


def planned(overrides: dict[str, str] | None = None, **more: object) -> StackPlan:
    arguments: dict[str, object] = {"table": TABLE, "baseline": "0.15.0", "python": "3.11", "named": NAMED, **more}
    of_configuration = {name: arguments.pop(name) for name in ("table", "baseline", "python", "named")}
    configured = ConfiguredStacks(**of_configuration)  # type: ignore[arg-type]  # keyword by keyword
    return plan_stacks(configured, overrides=overrides, **arguments)  # type: ignore[arg-type]  # keyword by keyword


def column(result: StackPlan, package: str) -> list[str]:
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


def test_a_baseline_that_was_not_named_is_said_to_be_added() -> None:
    assert planned({"deepspeed": "0.16.7"}).added == "deepspeed 0.15.0"
    assert planned({"transformers": "4.49.0"}).added == "transformers 4.57.6"
    assert planned({"deepspeed": "0.16.7,0.15.0"}).added == ""
    assert planned({"deepspeed": "0.16.7"}, chosen="0.16.0").added == ""
    assert planned({"transformers": "4.49.*,4.56.0"}).added == planned().added == ""


#: What an index had on a day.
THEN = {"torch": ("2.5.1", "2.6.0"), "transformers": ("4.49.0",), "deepspeed": ("0.15.0", "0.16.3", "0.16.4")}

#: What it does not list, and has: a yanked release.
UNLISTED_THEN = {"transformers==4.46.0": ("4.46.0",)}


def published_then(asked: str) -> tuple[str, ...]:
    return UNLISTED_THEN.get(asked, ()) if "==" in asked else THEN[asked]


def planned_then(overrides: dict[str, str] | None = None, **more: object) -> StackPlan:
    configured = ConfiguredStacks(
        table=TABLE, baseline=str(more.pop("baseline", "0.15.0")), python="3.11", named=NAMED, as_of="2025-02-21"
    )
    return plan_stacks(configured, overrides=overrides, published=published_then, **more)  # type: ignore[arg-type]


def test_as_of_a_day_the_configured_releases_that_came_later_give_way_to_the_newest_then() -> None:
    result = planned_then()
    assert column(result, "deepspeed") == ["0.15.0", "0.16.4"]
    assert set(column(result, "torch")) == {"2.6.0"}
    assert set(column(result, "transformers")) == {"4.49.0"}
    assert column(planned_then(name="report"), "torch") == ["2.5.1", "2.5.1"]
    assert column(planned_then(baseline="0.16.8"), "deepspeed") == ["0.16.4", "0.15.0"]


def test_as_of_a_day_latest_and_ranges_are_of_that_day() -> None:
    assert column(planned_then({"deepspeed": "latest"}), "deepspeed") == ["0.15.0", "0.16.4"]
    assert column(planned_then({"deepspeed": ">=0.16"}), "deepspeed") == ["0.15.0", "0.16.3", "0.16.4"]
    assert column(planned_then({"torch": "2.5.1,latest"}), "torch") == ["2.5.1", "2.6.0"]


def test_as_of_a_day_a_yanked_release_that_is_named_is_known() -> None:
    assert column(planned_then({"transformers": "4.46.0,4.49.0"}), "transformers") == ["4.46.0", "4.49.0"]


def test_as_of_a_day_a_release_that_came_later_is_unknown() -> None:
    with pytest.raises(UsageError) as refused:
        planned_then({"deepspeed": "0.16.8"})
    assert str(refused.value) == (
        "deepspeed: unknown release 0.16.8; nearest are 0.16.3, 0.16.4; the index had nothing else on 2025-02-21 (--as-of)"
    )


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


def test_a_chosen_baseline_is_a_version_of_the_axis_that_has_it() -> None:
    for chosen in ("2.7.0", "torch==2.7.0", "torch == 2.7.0"):
        result = planned({"deepspeed": "0.16.8", "torch": "2.6.0,2.7.0"}, chosen=chosen)
        assert column(result, "torch") == ["2.7.0", "2.6.0"]
        assert set(column(result, "deepspeed")) == {"0.16.8"}
        assert result.axes == ("torch",)
    result = planned(
        {"deepspeed": "0.16.8", "torch": "2.6.0,2.7.0"}, chosen="2.5.1"
    )  # a release, though not a given one
    assert column(result, "torch") == ["2.5.1", "2.6.0", "2.7.0"]
    result = planned({"deepspeed": "0.16.8", "torch": "2.6.0"}, chosen="0.16.4")
    assert result.baseline.versions["deepspeed"] == "0.16.4"


def test_a_chosen_baseline_of_the_named_axis_may_be_any_release() -> None:
    assert column(planned({"deepspeed": "0.16.7"}, chosen="deepspeed==0.16.0"), "deepspeed") == ["0.16.0", "0.16.7"]
    assert column(planned(chosen="deepspeed==0.16.8"), "deepspeed") == ["0.16.8", "0.15.0", "0.16.4"]


def test_a_baseline_that_several_axes_have_is_written_with_its_package() -> None:
    both = {"torch": "2.6.0,2.7.0", "frame": "2.6.0,2.7.0"}
    table = {**TABLE, "frame": "2.7.0"}
    known = {"frame": ("2.6.0", "2.7.0")}
    with pytest.raises(UsageError) as error:
        planned(both, table=table, chosen="2.7.0", published=lambda package: known[package])
    assert str(error.value) == (
        "--baseline: 2.7.0 may be a version of torch or frame; write torch==2.7.0 or frame==2.7.0"
    )
    result = planned(both, table=table, chosen="frame==2.7.0", published=lambda package: known[package])
    assert result.baseline.versions["frame"] == "2.7.0"
    assert result.baseline.versions["torch"] == "2.6.0"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("torch==2.6.0", "--baseline: torch has one version in all stacks; name a version of deepspeed"),
        ("vllm==1", "--baseline: vllm has one version in all stacks; name a version of deepspeed"),
        ("deepspeed==", "deepspeed: '' has an empty item"),
        ("==0.16.4.1", "unknown release 0.16.4.1"),
    ],
)
def test_a_baseline_of_no_axis_says_which_there_are(chosen: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        planned({"deepspeed": "0.16.4"}, chosen=chosen)


def test_several_axes_make_the_product() -> None:
    product = [("2.6.0", "0.15.0"), ("2.6.0", "0.16.4"), ("2.7.0", "0.15.0"), ("2.7.0", "0.16.4")]
    for deepspeed, chosen in (("0.15.0,0.16.4", None), ("0.16.4", "0.15.0"), ("0.16.4", "deepspeed==0.15.0")):
        result = planned({"torch": "2.6.0,2.7.0", "deepspeed": deepspeed}, chosen=chosen)
        assert list(zip(column(result, "torch"), column(result, "deepspeed"))) == product
        assert set(result.axes) == {"torch", "deepspeed"}
        assert result.stacks[1].label == "torch 2.6.0, deepspeed 0.16.4"


def test_one_version_of_the_framework_is_that_of_every_stack_where_another_package_varies() -> None:
    result = planned({"torch": "2.6.0,2.7.0", "deepspeed": "0.16.4"})
    assert column(result, "torch") == ["2.6.0", "2.7.0"]
    assert set(column(result, "deepspeed")) == {"0.16.4"}
    assert result.axes == ("torch",)
    assert result.stacks[1].label == "2.7.0 + deepspeed 0.16.4"


def test_beside_the_framework_one_version_of_another_package_is_that_of_every_stack() -> None:
    result = planned({"deepspeed": "0.16.4", "torch": "2.6.0", "transformers": "4.48.3"})
    assert column(result, "deepspeed") == ["0.15.0", "0.16.4"]
    assert set(column(result, "torch")) == {"2.6.0"}
    assert set(column(result, "transformers")) == {"4.48.3"}
    assert result.axes == ("deepspeed",)
    assert result.stacks[1].label == "0.16.4 + torch 2.6.0 + transformers 4.48.3"


@pytest.mark.parametrize(
    ("others", "chosen"),
    [({"transformers": "4.46.3,4.48.3"}, None), ({"transformers": "4.48.3"}, "transformers==4.46.3")],
)
def test_beside_several_versions_of_one_package_one_of_another_is_that_of_every_stack(
    others: dict[str, str], chosen: str | None
) -> None:
    result = planned({"torch": "2.6.0", **others}, chosen=chosen)
    assert column(result, "transformers") == ["4.46.3", "4.48.3"]
    assert set(column(result, "torch")) == {"2.6.0"}
    assert result.axes == ("transformers",)


def test_a_named_stack_is_compared_with_the_baseline_inside_itself() -> None:
    result = planned(name="report")
    assert column(result, "deepspeed") == ["0.15.0", "0.16.3"]
    assert set(column(result, "torch")) == {"2.5.1"}
    assert result.stacks[1].label == "report: 0.16.3"


def test_an_unknown_stack_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no such stack: reprot; did you mean report\?"):
        planned(name="reprot")


TRL = ("0.22.0", "0.23.0", "0.24.0")


def trl(package: str) -> tuple[str, ...]:
    assert package in ("trl", "flash_attn")
    return TRL


def test_an_added_package_is_in_every_stack_and_the_axis_is_what_it_was() -> None:
    for spelled in ("trl", "TRL"):
        result = planned({spelled: "0.24.0"}, published=trl)
        assert column(result, "deepspeed") == ["0.15.0", "0.16.4", "0.16.8"]
        assert column(result, "trl") == ["0.24.0"] * 3
        assert result.axes == ("deepspeed",)
        assert result.stacks[1].id == "py3.11-torch2.13.0-transformers4.57.6-deepspeed0.16.4-trl0.24.0"
        assert result.stacks[1].label == "0.16.4 + trl 0.24.0"
    assert column(planned({"trl": "latest", "deepspeed": "0.16.4"}, published=trl), "trl") == ["0.24.0"] * 2
    assert column(planned({"trl": "0.23.0", "transformers": "4.49.0"}, published=trl), "trl") == ["0.23.0"] * 2


def test_exact_releases_that_were_locked_before_need_no_index() -> None:
    def locked(package: str) -> tuple[str, ...]:
        return ("0.23.0", "0.24.0") if package == "trl" else ()

    def unreachable(package: str) -> tuple[str, ...]:
        raise EnvironmentUnavailable(f"no index responds for {package}")

    for spec in ("0.24.0", "==0.24", "0.23.0,0.24.0"):
        found = column(planned({"trl": spec}, published=unreachable, locked=locked), "trl")
        assert found[-1] == "0.24.0", spec
    for spec in ("0.22.0", "0.22.0,0.24.0", ">=0.23", "latest"):  # another one, or maybe a newer one
        with pytest.raises(EnvironmentUnavailable):
            planned({"trl": spec}, published=unreachable, locked=locked)


def test_several_versions_of_an_added_package_are_an_axis() -> None:
    result = planned({"trl": ">=0.23"}, published=trl)
    assert column(result, "trl") == ["0.23.0", "0.24.0"]
    assert set(column(result, "deepspeed")) == {"0.16.8"}
    assert result.axes == ("trl",)
    assert [stack.label for stack in result.stacks] == ["0.23.0", "0.24.0"]


@pytest.mark.parametrize("chosen", ["trl==0.23.0", "TRL == 0.23.0", "0.23.0"])
def test_a_baseline_of_another_version_makes_an_added_package_the_axis(chosen: str) -> None:
    result = planned({"trl": "0.24.0"}, chosen=chosen, published=trl)
    assert column(result, "trl") == ["0.23.0", "0.24.0"]
    assert set(column(result, "deepspeed")) == {"0.16.8"}


def test_a_baseline_of_the_framework_leaves_an_added_package_where_it_is() -> None:
    result = planned({"trl": "0.24.0", "deepspeed": "0.16.8"}, chosen="0.16.4", published=trl)
    assert column(result, "deepspeed") == ["0.16.4", "0.16.8"]
    assert set(column(result, "trl")) == {"0.24.0"}


def test_a_named_stack_may_have_more_packages_and_gets_those_that_are_added() -> None:
    named = {"rlhf": {"torch": "2.5.1", "flash_attn": "0.22.0"}}
    result = planned({"trl": "0.24.0"}, named=named, name="rlhf", published=trl)
    assert {stack.versions["flash_attn"] for stack in result.stacks} == {"0.22.0"}
    assert set(column(result, "trl")) == {"0.24.0"}
    assert result.axes == ("deepspeed",)
    result = planned({"Flash-Attn": "0.24.0"}, named=named, name="rlhf", published=trl)  # configured, spelled otherwise
    assert column(result, "flash_attn") == ["0.22.0", "0.24.0"]


@pytest.mark.parametrize("package", ["../trl", "trl[vllm]", "-trl", "tr l"])
def test_what_names_no_package_is_refused(package: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a package; write e.g. trl"):
        planned({package: "0.24.0"})


def test_offline_the_named_releases_that_the_installer_has_are_enough() -> None:
    def cached(wanted: str) -> tuple[str, ...]:
        package, named, version = wanted.partition("==")
        if not named:
            raise Offline(f"offline: cannot look up releases of {package}")
        return (version,) if version == "0.24.0" else ()

    assert set(column(planned({"trl": "0.24.0"}, published=cached), "trl")) == {"0.24.0"}
    for spec in ("0.23.0", "0.24.0,0.23.0", "latest", "0.24.*", "0.24.0,latest"):
        with pytest.raises(Offline, match="cannot look up releases of trl"):
            planned({"trl": spec}, published=cached)


def test_a_baseline_that_means_several_releases_is_refused() -> None:
    with pytest.raises(UsageError, match=r"baseline '0.16.\*' matches 10 releases; name exactly one"):
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
    configured = ConfiguredStacks(table={"mine": ("1.0", "2.0")}, baseline="1.0", python="3.11")
    result = plan_stacks(configured, published=lambda package: ("1.0", "2.0", "3.0"))
    assert column(result, "mine") == ["1.0", "2.0"]
    assert result.stacks[0].id == "py3.11-mine1.0"


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("py3.11-torch2.13.0-deepspeed0.16.4", {"torch": "2.13.0", "deepspeed": "0.16.4"}),
        ("py3.11-torch2.13.0+cpu-mpi4py4.0.1", {"torch": "2.13.0+cpu", "mpi4py": "4.0.1"}),
        (
            "py3.11-deepspeed0.15.4+g1a2b3c4d-nvidia-ml-py12.0",
            {"deepspeed": "0.15.4+g1a2b3c4d", "nvidia-ml-py": "12.0"},
        ),
        ("py3.11-torch2.13.0-9packages-3fa91c2b77de", None),
        ("0.16.4", None),
        ("", None),
    ],
)
def test_the_stack_of_an_id(text: str, versions: dict[str, str] | None) -> None:
    found = of_id(text)
    assert (found and found.versions) == versions


@pytest.mark.parametrize(
    ("overrides", "partners"),
    [
        ({"transformers": "4.45.2,4.46.3"}, {"accelerate": "1.15.0", "peft": "0.21.2"}),
        ({"transformers": "4.37.2,4.38.2"}, {"accelerate": "0.34.2", "peft": "0.13.2"}),
        ({"transformers": "4.37.2,4.38.2", "accelerate": "0.27.2"}, {"accelerate": "0.27.2", "peft": "0.13.2"}),
        ({"transformers": "4.37.2,4.38.2", "peft": "0.21.2"}, {"accelerate": "0.34.2", "peft": "0.21.2"}),
        ({"transformers": "4.56.2,4.57.6", "peft": "0.17.1"}, {"accelerate": "1.15.0", "peft": "0.17.1"}),
    ],
    ids=["newest", "old", "old-accelerate", "named", "all-named"],
)
def test_a_package_that_is_not_named_gives_way_to_one_that_runs_with_those_that_are(
    overrides: dict[str, str], partners: dict[str, str]
) -> None:
    table = {
        "torch": "2.13.0",
        "transformers": "5.24.0",
        "accelerate": "1.15.0",
        "peft": "0.21.2",
        "deepspeed": ("0.19.8",),
    }
    configured = ConfiguredStacks(table=table, baseline="0.19.8", python="3.11")
    planned = plan_stacks(
        configured,
        overrides=overrides,
        published=lambda package: tuple(version for spec in overrides.values() for version in spec.split(",")),
    )
    for stack in planned.stacks:
        assert {package: stack.versions[package] for package in partners} == partners
