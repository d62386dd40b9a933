"""Known models: the data files read well, name their sources, and give the published numbers of parameters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from skeletons import make
from skeletons.known_models import configuration_sources, known_models
from skeletons.table_files import TABLES, model_tables, read_table
from skeletons.tokenizer_families import tokenizer_families

#: Name -> ``parameters``, or ``billions`` as a card rounds them, and who published the number.
PUBLISHED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "published_parameters.json").read_text())

#: Fields of an entry of ``models``.
FIELDS = {"base", "tokenizer", "preprocessor", "processor", "source", "confirmed_by", "config"}


@pytest.mark.parametrize("table", model_tables())
def test_every_line_of_a_table_is_used_and_says_something(table: str) -> None:
    content = read_table(table)
    own = {name: entry for name, entry in content["models"].items() if "same_as" not in entry}
    others = {name: entry for name, entry in content["models"].items() if "same_as" in entry}
    assert all(set(entry) == {"same_as"} and entry["same_as"] in own for entry in others.values())
    assert {field for entry in own.values() for field in entry} <= FIELDS
    assert {entry["base"] for entry in own.values() if "base" in entry} == set(content["bases"])
    repeated = {
        (name, field)
        for name, entry in own.items()
        for field, value in entry["config"].items()
        if "base" in entry and content["bases"][entry["base"]].get(field, ...) == value
    }
    assert repeated == set()


def test_no_name_stands_twice() -> None:
    lines = [line for table in model_tables() for line in (TABLES / f"{table}.json").read_text().splitlines()]
    names = [line.partition('": {')[0] for line in lines if '"source"' in line or '"same_as"' in line]
    assert sorted(names) == sorted(set(names))
    assert len(names) == len(known_models())


def test_every_model_says_where_its_configuration_is_from() -> None:
    sources = configuration_sources()
    assert {model.source for model in known_models().values()} == set(sources)
    assert {source.kind for source in sources.values()} == {"repository", "copy", "code", "card"}


def test_a_table_is_read_when_a_model_is_first_asked_for() -> None:
    program = (
        "import sys, skeletons.hub_names as hub_names, skeletons.known_models as known_models;"
        "before = known_models.known_models.cache_info().currsize;"
        "assert hub_names.known_model_name('GPT2') == 'gpt2';"
        "print(before, known_models.known_models.cache_info().currsize)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=TABLES.parents[1], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "1"]


@pytest.mark.parametrize("name", known_models())
def test_special_tokens_of_a_known_model_are_those_of_its_tokenizer(name: str) -> None:
    model = known_models()[name]
    config = model.config
    if not model.tokenizer:
        assert model.preprocessor is not None  # it reads no text
        return
    held = tokenizer_families()[model.tokenizer]
    rows = config.get("vocab_size", config.get("text_config", {}).get("vocab_size", 0))
    more = 8 if config["model_type"] == "mllama" else 0  # rows of its embedding that its head lacks
    assert held.tokens <= rows + more
    if held.pad:  # the first Llama's configuration names a pad token, its tokenizer none
        assert held.special.get(config.get("pad_token_id"), held.pad) == held.pad
    ends = config.get("eos_token_id")
    if ends is None:  # as of an encoder, and where the part that reads has it
        assert not held.eos or "text_config" in config
        return
    assert held.special.items() >= {
        (index, held.special[index]) for index in (ends if isinstance(ends, list) else [ends])
    }
    if not isinstance(ends, list):
        assert held.special[ends] == held.eos


@pytest.mark.parametrize("size", ["7b", "13b", "30b", "65b"])
def test_the_first_llama_pads_with_its_unknown_token(size: str) -> None:
    """As scripts of its time rely on (``convert_ids_to_tokens(model.config.pad_token_id)``)."""
    assert known_models()[f"huggyllama/llama-{size}"].config["pad_token_id"] == 0


def counted_parameters(name: str, *, without_head: bool = False) -> int:
    """Return the number of parameters of a known model's skeleton, as the installed transformers builds it."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from skeletons import parameters

    fields = dict(known_models()[name].config)
    if fields["model_type"] not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no {fields['model_type']}")
    if without_head:
        fields["architectures"] = [transformers.AutoModel._model_mapping[type(make.loaded_config(fields))].__name__]
    try:
        model = parameters.build_model(make.loaded_config(fields), "meta")
    except ImportError as error:  # Gemma 3n sees by a model of timm
        pytest.skip(str(error))
    return sum(parameter.numel() for parameter in model.parameters())


def transformers_major() -> int:
    """Return the first number of the installed transformers' version."""
    return int(str(pytest.importorskip("transformers").__version__).partition(".")[0])


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_known_model_has_the_published_number_of_parameters(name: str) -> None:
    published = PUBLISHED[name]
    counted = counted_parameters(name, without_head=published.get("without_head", False))
    if "billions" in published:
        digits = len(str(published["billions"]).partition(".")[2])
        assert round(counted / 1e9, digits) == published["billions"]
    elif (
        "built_by_transformers_5" in published and transformers_major() >= 5
    ):  # its T5 is always built with a tied head
        assert counted == published["built_by_transformers_5"]
    else:
        assert counted == published["parameters"]


def test_a_part_of_a_model_that_a_releases_table_lacks_is_found_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")

    def lacks(kind: str) -> NoReturn:
        raise ValueError(f"Unrecognized model identifier: {kind}")

    monkeypatch.setattr(transformers.AutoConfig, "for_model", lacks)
    fields: dict[str, Any] = {"model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 64}
    assert make.loaded_config(fields).hidden_size == 64
    with pytest.raises(make.SkeletonError, match="has no model_type 'clip_vision_model'"):
        make.loaded_config({**fields, "model_type": "clip_vision_model"})
