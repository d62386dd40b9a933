"""What releases require of each other, as far as it is committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsregress.versions import declared_requirements
from dsregress.versions.declared_requirements import (
    conflicts_of,
    ending_releases,
    new_conflicts,
    newest_together,
    unknown_requirements,
    write_requirements,
)

DECLARED = {
    "trl": {"0.20.0": ["transformers>=4.53.2"], "1.16.0": ["accelerate>=1.11.0", "transformers>=4.56.2"]},
    "llamafactory": {
        "0.9.0": ["transformers<=4.45.0,>=4.41.2"],
        "0.9.4": ["transformers!=4.57.0,<=5.2.0,>=4.51.0"],
    },
    "peft": {"0.17.1": [], "0.18.0": []},
    "transformers": {version: [] for version in ("4.53.2", "4.55.4", "4.56.2", "4.57.6", "5.2.0", "5.3.0")},
}


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared_requirements, "known_requirements", lambda: DECLARED)


def test_releases_that_cannot_be_installed_together_are_a_conflict() -> None:
    (found,) = conflicts_of({"trl": "1.16.0", "transformers": "4.47.0", "peft": "0.17.0"})
    assert found.text == "trl 1.16.0 requires transformers>=4.56.2, not 4.47.0"


@pytest.mark.parametrize(
    "versions",
    [
        {"trl": "1.16.0", "transformers": "4.56.2", "accelerate": "1.11.0"},
        {"trl": "1.16.0"},  # of the other package nothing is stated
        {"trl": "1.17.0", "transformers": "4.47.0"},  # a release that is not known
        {"trl": "1.16.0", "transformers": "a1b2c3d4"},  # a commit
        {"trl": "1.16.0", "transformers": "5.0.0rc1"},
    ],
)
def test_other_releases_are_none(versions: dict[str, str]) -> None:
    assert conflicts_of(versions) == ()


@pytest.mark.parametrize(
    ("bounds", "texts"),
    [
        (">=4.53,<4.56", ["trl 1.16.0 requires transformers>=4.56.2, not >=4.53,<4.56"]),
        (">=4.53,<5", []),  # 4.56.2 is one of them
        (">=9", []),  # of these none is known
    ],
)
def test_a_range_is_a_conflict_if_no_release_of_it_will_do(bounds: str, texts: list[str]) -> None:
    found = conflicts_of({"trl": "1.16.0"}, {"transformers": bounds})
    assert [one.text for one in found] == texts
    assert ending_releases(found, {"trl": "1.16.0"}, {"trl": "1.16.0"}) == ({"transformers": "4.56.2"} if texts else {})


def test_the_newest_that_go_together_keep_to_the_range_of_what_stays() -> None:
    found, moved = newest_together({"trl": "0.20.0"}, {"trl": "1.16.0"}, ["trl"], {"transformers": "<4.56"})
    assert found == {"trl": "0.20.0"}
    assert [one.text for one in moved] == ["trl 1.16.0 requires transformers>=4.56.2, not <4.56"]


@pytest.mark.parametrize("release", ["1.16.0+local", "1.16"])
def test_a_release_requires_the_same_of_whatever_build_and_however_it_is_written(release: str) -> None:
    assert len(conflicts_of({"trl": release, "transformers": "4.47.0"})) == 1


def test_what_is_not_satisfied_before_either_is_no_new_conflict() -> None:
    old = {"trl": "1.16.0", "transformers": "4.47.0"}
    assert new_conflicts(old, {**old, "transformers": "4.55.4"}) == ()
    assert len(new_conflicts({**old, "transformers": "4.57.6"}, old)) == 1


@pytest.mark.parametrize(
    ("old", "moves", "ending"),
    [
        ({"trl": "0.20.0", "transformers": "4.53.2"}, {"trl": "1.16.0"}, {"transformers": "4.56.2"}),  # the next one up
        ({"trl": "0.20.0", "accelerate": "1.0.0"}, {"trl": "1.16.0"}, {"accelerate": "1.11.0"}),
        ({"llamafactory": "0.9.4", "transformers": "4.55.4"}, {"transformers": "5.3.0"}, {"transformers": "5.2.0"}),
        # what stays and is too old for what moves gives way, if a newer release of it is known to run with it
        ({"peft": "0.17.1", "transformers": "4.57.6"}, {"transformers": "5.2.0"}, {"peft": "0.18.0"}),
    ],
)
def test_the_release_that_ends_a_conflict_is_named(
    old: dict[str, str], moves: dict[str, str], ending: dict[str, str]
) -> None:
    new = {**old, **moves}
    assert ending_releases(conflicts_of(new), old, new) == ending


def test_without_a_release_that_ends_each_conflict_none_is_named() -> None:
    new = {"trl": "1.16.0", "transformers": "4.47.0", "llamafactory": "0.9.4"}
    conflicts = conflicts_of(new)
    assert [one.package for one in conflicts] == ["trl", "llamafactory"]
    assert ending_releases(conflicts, new, new) == {"transformers": "4.56.2"}
    new["llamafactory"] = "0.9.0"  # which excludes all that TRL takes
    assert ending_releases(conflicts_of(new), new, new) == {}


def test_releases_that_do_not_run_together_are_a_conflict_that_no_metadata_declare() -> None:
    (found,) = conflicts_of({"peft": "0.17.1", "transformers": "5.2.0"})
    assert (found.declared, found.text) == (False, "peft 0.17.1 runs only with transformers<5, not 5.2.0")


def test_releases_of_which_no_requirements_are_known_are_named() -> None:
    assert unknown_requirements({"trl": "0.9.1", "transformers": "4.57.6", "numpy": "2.0"}) == ("trl 0.9.1",)
    assert unknown_requirements({"trl": "1.16"}) == ()


LATEST = {"trl": "1.16.0", "transformers": "5.3.0", "llamafactory": "0.9.4"}


@pytest.mark.parametrize(
    ("old", "movable", "found"),
    [
        (
            {"trl": "0.20.0", "transformers": "4.55.4"},
            {"trl", "transformers"},
            {"trl": "1.16.0", "transformers": "5.3.0"},
        ),
        (  # what one requires is what the other goes to
            {"llamafactory": "0.9.4", "transformers": "4.55.4"},
            {"transformers"},
            {"llamafactory": "0.9.4", "transformers": "5.2.0"},
        ),
        (  # what was named stays, and the package that requires another release gives way
            {"trl": "0.20.0", "transformers": "4.53.2"},
            {"trl"},
            {"trl": "0.20.0", "transformers": "4.55.4"},
        ),
        (  # nothing goes below what is installed
            {"trl": "1.15.0", "transformers": "4.57.6"},
            {"trl"},
            {"trl": "1.16.0", "transformers": "4.55.4"},
        ),
    ],
)
def test_the_latest_releases_are_the_newest_that_go_together(
    old: dict[str, str], movable: set[str], found: dict[str, str]
) -> None:
    goals = {package: LATEST[package] if package in movable else found[package] for package in old}
    assert newest_together(old, goals, movable)[0] == found


def test_only_new_releases_are_asked_for_their_requirements_and_only_those_that_limit_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(declared_requirements, "FILE", tmp_path / "requirements.json")
    monkeypatch.setattr(declared_requirements, "_OLDEST", {"trl": "0.9", "transformers": "4.42"})
    published = {"trl": ["1.0.0", "0.20.0", "0.8.0", "1.1.0rc1", "1.1.0"], "transformers": ["4.57.6"]}
    texts = [
        "Transformers[torch]<6,>=4.53",
        "datasets>=3",  # which nobody asked about
        'transformers!=5.1.0; extra == "deepspeed"',
        'torch<2.3; sys_platform == "darwin"',
        "torch",
        "torch>=2.4",
        "transformers (<not a requirement",
    ]
    asked: list[str] = []

    def declared(package: str, version: str) -> list[str] | None:
        asked.append(f"{package} {version}")
        return None if version == "1.1.0" else texts if package == "trl" else []

    write_requirements(published.__getitem__, declared)
    expected = {
        "transformers": {"4.57.6": []},
        "trl": {version: ["torch>=2.4", "transformers<6,>=4.53"] for version in ("0.20.0", "1.0.0")},
    }
    assert json.loads((tmp_path / "requirements.json").read_text()) == expected
    assert asked == ["transformers 4.57.6", "trl 0.20.0", "trl 1.0.0", "trl 1.1.0"]

    asked.clear()
    write_requirements(published.__getitem__, declared)
    assert json.loads((tmp_path / "requirements.json").read_text()) == expected
    assert asked == ["trl 1.1.0"]  # no wheel of it could be read: perhaps it can now
