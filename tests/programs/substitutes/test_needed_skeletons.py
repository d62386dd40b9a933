"""Skeletons are made once for all environments that make the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsregress.probe.border import skeleton_maker
from dsregress.programs.substitutes import needed_skeletons
from dsregress.programs.substitutes.needed_skeletons import Skeletons

NAME = "Qwen/Qwen2.5-0.5B"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What skeletons are made of; a skeleton takes seconds, and here none."""
    made: list[str] = []

    def make(python: str, what: str, folder: Path, environment: Any, *, tiny: bool, contents: bool) -> tuple[()]:
        made.append(what)
        (folder / "config.json").write_text("{}")
        return ()

    monkeypatch.setattr(skeleton_maker, "make_skeleton", make)
    return made


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The packages that make skeletons, in the environment of this process."""
    installed: dict[str, list[Any]] = {"all": ["2.13.0", "4.57.6"]}
    monkeypatch.setattr(needed_skeletons, "skeleton_makers", lambda: installed["all"])
    return installed


def tiny(folder: Path, *, contents: bool = True) -> Skeletons:
    return Skeletons(folder, tiny=True, contents=contents)


def test_a_second_environment_with_the_same_packages_makes_none(
    made: list[str], makers: dict[str, list[Any]], tmp_path: Path
) -> None:
    first = tiny(tmp_path).of(NAME, NAME)
    assert tiny(tmp_path).of(NAME, NAME) == first
    assert made == [NAME]
    assert (first.parent.parent / "refs" / "main").read_text() == first.name


def test_what_makes_skeletons_is_their_code_and_their_tables() -> None:
    names = {file.name for file in needed_skeletons.maker_files()}
    assert {"make.py", "tokenizer.py", "chat_templates.json", "tokenizers.json"} <= names


def test_an_environment_with_other_packages_has_skeletons_of_its_own(
    made: list[str], makers: dict[str, list[Any]], tmp_path: Path
) -> None:
    first = tiny(tmp_path).of(NAME, NAME)
    makers["all"] = ["2.13.0", "4.57.6", ("modeling_qwen2.py", 1, 2)]
    second = tiny(tmp_path).of(NAME, NAME)
    assert made == [NAME, NAME]
    assert (first.parent.parent / "refs" / "main").read_text() == first.name != second


def test_one_without_contents_does_not_stand_for_one_with_them(
    made: list[str], makers: dict[str, list[Any]], tmp_path: Path
) -> None:
    assert tiny(tmp_path).of(NAME, NAME) != tiny(tmp_path, contents=False).of(NAME, NAME)
    assert made == [NAME, NAME]


def test_a_folder_of_the_users_with_another_tokenizer_is_another_model(
    made: list[str], makers: dict[str, list[Any]], tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (model / "tokenizer.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"")
    first = tiny(tmp_path).of(str(model), "local/model")
    (model / "model.safetensors").write_bytes(b"trained")
    assert tiny(tmp_path).of(str(model), "local/model") == first
    (model / "tokenizer.json").write_text('{"version": "1.0"}')
    assert tiny(tmp_path).of(str(model), "local/model") != first
