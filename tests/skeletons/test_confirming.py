"""Known models agree with other projects' tables, but for the differences that are known, each with its reason."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import json
from pathlib import Path

import pytest

from skeletons import known_models as known
from tests.skeletons import confirming

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_no_table_differs_but_as_is_known() -> None:
    reasons: dict[str, list[str]] = json.loads((HERE / "known_differences.json").read_text(encoding="utf-8"))
    lines = [line for group in reasons.values() for line in group]
    assert sorted(one.line() for one in confirming.differences()) == sorted(lines)


def test_a_wrong_size_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "Qwen/Qwen2.5-7B"
    model = known.known_models()[name]
    wrong = dataclasses.replace(model, config={**model.config, "intermediate_size": 18_945})
    monkeypatch.setattr(confirming, "known_models", lambda: {**known.known_models(), name: wrong})
    lines = [one.line() for one in confirming.differences() if one.model == name]
    assert lines == [f"{name}: feed_forward 18945, {package} 18944" for package in ("litgpt", "torchtune")]
    assert confirming.confirming(name) == ()


def test_a_model_says_which_tables_confirm_it() -> None:
    said = {name: model.confirmed_by for name, model in known.known_models().items()}
    assert said == {name: confirming.confirming(name) for name in said}


def test_a_table_does_not_confirm_what_was_copied_from_it() -> None:
    copied = [name for name, model in known.known_models().items() if model.source == "litgpt"]
    assert copied
    assert not [name for name in copied if "litgpt" in confirming.confirming(name)]


def test_the_page_counts_what_is_confirmed() -> None:
    assert confirming.counts_by_source() in (ROOT / "docs" / "skeletons.md").read_text(encoding="utf-8")


def test_the_recording_says_what_the_installed_tables_say() -> None:
    """Where the packages are installed, in the recorded versions: see `recording`."""
    from tests.skeletons import recording

    for package, facts_of in (
        ("litgpt", recording.of_litgpt),
        ("torchtune", recording.of_torchtune),
        ("open_clip_torch", recording.of_open_clip),
    ):
        module = package.removesuffix("_torch")
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module} is installed")
        table = confirming.recorded()["tables"][package]
        if importlib.metadata.version(package) == table["version"]:
            assert json.loads(json.dumps(facts_of())) == table["models"]
