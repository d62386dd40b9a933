"""Facts of the model that a job names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsregress.advisories.job_facts import Fact, merged_facts
from dsregress.advisories.stated.model_configuration import facts_of_models


def facts_of(name: str, folder: Path = Path(), *others: Fact) -> dict[str, object]:
    named = Fact(name="model_name", value=name, source="--program: --model_name_or_path")
    merged, _ = merged_facts([named, *facts_of_models([named], folder)], others)
    return {fact.name: fact.value for fact in merged.values()}


@pytest.mark.parametrize(
    ("name", "model_type"),
    [
        ("Qwen/Qwen3-8B", "qwen3"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama"),
        ("google-t5/t5-small", "t5"),
        ("me/Llama-3.2-1B-Instruct-cold-start", "llama"),
    ],
)
def test_a_model_of_the_hub_has_the_type_of_its_configuration(name: str, model_type: str) -> None:
    assert facts_of(name)["model_type"] == model_type


def test_a_model_in_a_folder_has_what_its_configuration_says(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps({"model_type": "llama", "tie_word_embeddings": True}))
    found = facts_of("mine", tmp_path)
    assert (found["model_type"], found["tied_embeddings"]) == ("llama", True)


@pytest.mark.parametrize("name", ["somebody/a-model-of-his-own", "/models/of/another/machine", "", "~/\0"])
def test_nothing_is_said_of_a_model_that_is_not_known(name: str, tmp_path: Path) -> None:
    assert "model_type" not in facts_of(name, tmp_path)


def test_what_the_reader_says_wins_over_the_configuration() -> None:
    said = Fact(name="tied_embeddings", value=False, source="--set tied_embeddings")
    assert facts_of("google/gemma-2-2b", Path(), said)["tied_embeddings"] is False


def test_only_a_t5_can_be_a_t5_with_untied_embeddings() -> None:
    assert facts_of("Qwen/Qwen3-8B")["untied_t5"] is False
    assert "untied_t5" not in facts_of("google-t5/t5-small")
