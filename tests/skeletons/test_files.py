"""What a skeleton's files hold, without torch."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skeletons import hub_names, make, pipelines, safetensors, sentencepiece_model, tiny, tokenizer
from skeletons.known_models import known_models
from skeletons.safetensors import StoredTensor
from skeletons.tokenizer_families import TokenizerFamily, tokenizer_families


def header(file: Path) -> tuple[dict[str, Any], int]:
    """The JSON, and where the data begins."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        return json.loads(opened.read(length)), 8 + length


def test_a_file_without_contents_has_its_full_size_and_no_blocks(tmp_path: Path) -> None:
    safetensors.write_checkpoint(
        tmp_path, [StoredTensor("a", "BF16", (1 << 15, 1 << 15)), StoredTensor("b", "F32", (3,))]
    )
    table, start = header(tmp_path / "model.safetensors")
    assert table["b"] == {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}  # larger elements first: aligned
    assert table["a"]["data_offsets"] == [12, 12 + (2 << 30)]
    status = (tmp_path / "model.safetensors").stat()
    assert start % 8 == 0
    assert status.st_size == start + 12 + (2 << 30)
    assert status.st_blocks * 512 < 1 << 16


def test_contents_lie_where_the_header_says(tmp_path: Path) -> None:
    entries = [StoredTensor("a", "U8", (2,)), StoredTensor("b", "I16", (2,))]
    safetensors.write_checkpoint(tmp_path, entries, lambda entry: entry.name.encode() * entry.nbytes)
    table, start = header(tmp_path / "model.safetensors")
    data = (tmp_path / "model.safetensors").read_bytes()[start:]
    assert [data[slice(*table[name]["data_offsets"])] for name in "ab"] == [b"aa", b"bbbb"]


def test_shards_are_cut_before_they_exceed_the_limit_and_listed(tmp_path: Path) -> None:
    entries = [StoredTensor(name, "U8", (size,)) for name, size in (("a", 6), ("b", 4), ("c", 1), ("d", 20), ("e", 1))]
    made = safetensors.write_checkpoint(tmp_path, entries, shard_bytes=10)
    assert [file.name for file in made][:2] == ["model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors"]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 32}
    assert [int(index["weight_map"][name][6:11]) for name in "abcde"] == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("name", [name for name, family in tokenizer_families().items() if not family.without_fast])
def test_a_vocabulary_has_the_published_size_and_ids(name: str) -> None:
    family = tokenizer_families()[name]
    files = tokenizer.tokenizer_files(family)
    made = json.loads(files["tokenizer.json"])
    vocab = made["model"]["vocab"]
    if family.unigram:
        vocab = {text: index for index, (text, _) in enumerate(vocab)}
    ids = {**vocab, **{token["content"]: token["id"] for token in made["added_tokens"]}}
    assert sorted(ids.values()) == list(range(family.tokens))
    assert {index: text for text, index in ids.items() if index in family.special} == family.special
    single = sentencepiece_model.first_texts(family) if family.sentencepiece else tokenizer.byte_texts()
    assert set(single) <= ids.keys()  # any text can be encoded
    merges = (merge.split(" ") for merge in made["model"].get("merges", ()))
    assert all({left, right, left + right} <= ids.keys() for left, right in merges)
    settings = json.loads(files["tokenizer_config.json"])
    assert settings["eos_token"] in ({*family.special.values()} if family.eos else {None})
    assert family.eos or family.sep  # every text ends somewhere
    assert bool(settings.get("chat_template")) == bool(family.chat_template)


@pytest.mark.parametrize(
    ("name", "single", "pair"),
    [
        ("llama-2", "<s> A", "<s> A B"),
        ("bert-cased", "[CLS] A [SEP]", "[CLS] A [SEP] B [SEP]"),
        ("roberta", "<s> A </s>", "<s> A </s> </s> B </s>"),
        ("t5", "A </s>", "A </s> B </s>"),
    ],
)
def test_texts_stand_between_the_special_tokens_of_the_family(name: str, single: str, pair: str) -> None:
    made = json.loads(tokenizer.tokenizer_files(tokenizer_families()[name])["tokenizer.json"])["post_processor"]

    def read(parts: list[dict[str, Any]]) -> str:
        return " ".join(value["id"] for part in parts for value in part.values())

    assert (read(made["single"]), read(made["pair"])) == (single, pair)
    assert {text: held["ids"] for text, held in made["special_tokens"].items()} == {
        text: [index] for index, text in tokenizer_families()[name].special.items() if text in pair.split()
    }


def test_only_a_family_that_numbers_its_texts_gives_a_model_those_numbers() -> None:
    given = {
        name: "token_type_ids"
        in json.loads(tokenizer.tokenizer_files(tokenizer_families()[name])["tokenizer_config.json"])[
            "model_input_names"
        ]
        for name in ("llama-3", "roberta", "distilbert-cased", "bert-cased")
    }
    assert given == {"llama-3": False, "roberta": False, "distilbert-cased": False, "bert-cased": True}


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        tokenizer.tokenizer_files(TokenizerFamily(tokens=100, special={0: "<eos>"}, eos="<eos>"))


def test_names_are_found_as_the_hub_finds_them() -> None:
    assert hub_names.known_model_name("qwen/qwen2.5-7b") == "Qwen/Qwen2.5-7B"
    assert hub_names.known_model_name("nobody/nothing") is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("unsloth/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("unsloth/Qwen2.5-7B-Instruct-bnb-4bit", None),  # quantised, so of other shapes
        ("NousResearch/Hermes-3-Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),  # of one who also mirrors
        ("alignment-handbook/zephyr-7b-sft-full", "mistralai/Mistral-7B-Instruct-v0.1"),
        ("alignment-handbook/zephyr-7b-sft-qlora", None),  # an adapter
        ("decapoda-research/llama-7b-hf", "huggyllama/llama-7b"),
        ("deepseek-ai/deepseek-math-7b-rl", "deepseek-ai/deepseek-llm-7b-chat"),
        ("simplescaling/s1.1-32B", "Qwen/Qwen2.5-32B-Instruct"),
        ("unsloth/Phi-3.5-mini-instruct", "microsoft/Phi-3.5-mini-instruct"),
        ("openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("unsloth/gpt-oss-20b-unsloth-bnb-4bit", None),  # quantised
        ("vasista22/whisper-hindi-base", "openai/whisper-base"),
        ("distil-whisper/distil-large-v3.5", None),  # of its publisher, and maybe of other layers
        ("me/Llama-3.2-1B-Instruct-cold-start-ft2", "meta-llama/Llama-3.2-1B-Instruct"),
        ("me/gpt2-medium_emotion", "gpt2-medium"),
        ("me/Qwen2.5-7B-Instruct-v2", "Qwen/Qwen2.5-7B-Instruct"),
        ("me/Llama-3.2-1B-Instruct-lora", None),
        ("me/Llama-3.2-1B-Instruct-GPTQ-Int4", None),
        ("me/Llama-3.2-1B-Instruct-8bit", None),
        ("me/Qwen2.5-7B-8layers-pruned", None),
        ("me/Qwen2.5-7B-2x7B", None),
        ("me/bert-base-uncased-emotion", "bert-base-uncased"),
        ("openai/whisper-large-v3-other", None),  # of its publisher, and maybe of fewer layers
        ("me/Qwen2.5-7Bx", None),
        ("me/my-Qwen2.5-7B", None),
        ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),  # as sentence-transformers calls its own
        ("LLM-Research/Phi-3-mini-4k-instruct", "microsoft/Phi-3-mini-4k-instruct"),  # a mirror, whoever it is
        ("AI-ModelScope/phi-2", "microsoft/phi-2"),
        ("modelscope/Llama-2-7b-ms", "meta-llama/Llama-2-7b-hf"),
        ("unsloth/llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("unsloth/llama-3-8b-bnb-4bit", None),  # quantised
        ("hfl/chinese-macbert-base", "hfl/chinese-roberta-wwm-ext"),
    ],
)
def test_a_mirror_or_a_fine_tuned_model_has_the_shapes_of_its_original(name: str, meant: str | None) -> None:
    assert hub_names.known_model_name(name) == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AI-ModelScope/stable-diffusion-v1-5", "runwayml/stable-diffusion-v1-5"),
        ("black-forest-labs/flux.1-DEV", "black-forest-labs/FLUX.1-dev"),
        ("stable-diffusion-v1-5", None),  # a folder
        ("me/stable-diffusion-v1-5-lora", None),
    ],
)
def test_a_mirror_of_a_pipeline_has_the_shapes_of_its_original(name: str, meant: str | None) -> None:
    assert pipelines.known_pipeline_name(name) == meant


@pytest.mark.parametrize(
    ("name", "pads"),
    [
        ("meta-llama/Llama-3.2-1B-Instruct", ""),  # published without a token for padding
        ("unsloth/Llama-3.2-1B-Instruct", ""),
        ("me/Llama-3.2-1B-Instruct-cold-start-ft2", "<|eot_id|>"),
        ("me/Qwen2.5-7B-Instruct-v2", "<|endoftext|>"),  # as the model that it was fine-tuned from
    ],
)
def test_a_model_that_is_called_after_another_can_pad_its_batches(name: str, pads: str) -> None:
    family = make.skeleton_source(name).family
    assert family is not None
    assert family.pad == pads


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Qwen/Qwen3-7B-Base", "Qwen/Qwen3-8B-Base"),
        ("meta-llama/Llama-3.2-4B", "meta-llama/Llama-3.2-3B"),
        ("google/siglip2-large-patch14-384", "google/siglip2-large-patch16-384"),
        ("google/gemma-5-9b-it", "google/gemma-2-9b-it"),
        ("nobody/nothing", None),
        ("nobody/llamantis-7b", None),  # another word
        ("4-letters", None),
    ],
)
def test_the_nearest_known_model_is_of_the_same_family(name: str, nearest: str | None) -> None:
    assert hub_names.nearest_known_name(name, known_models()) == nearest


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("THUDM/chatglm3-6b", True),
        ("OpenGVLab/InternVL3-8B", True),
        ("OpenGVLab/InternVL3_5-8B-HF", False),  # of transformers' classes, and not known
        ("OpenGVLab/InternVL3-8B-hf", False),  # known
        ("qwen/Qwen-VL-Chat", True),
        ("nobody/nothing", False),
    ],
)
def test_a_repository_with_code_of_its_own_is_told_from_one_that_is_not_known(name: str, own: bool) -> None:
    assert hub_names.has_own_code(name) == own


def test_every_fine_tuned_model_names_a_known_one() -> None:
    assert set(hub_names.fine_tuned().values()) <= set(known_models())


@pytest.mark.parametrize("name", ["qwen-2.5", "llama-3.1-chat", "opt"])
def test_a_small_tokenizer_keeps_its_special_tokens(name: str) -> None:
    family = tokenizer_families()[name]
    less, ids = make.small_family(family)
    assert less.tokens < 1400
    assert {ids[index]: text for index, text in family.special.items()} == less.special
    assert (less.eos, less.chat_template) == (family.eos, family.chat_template)


def test_a_thousand_special_tokens_leave_room_for_words() -> None:
    less, ids = make.small_family(tokenizer_families()["mistral-small"])
    assert ids[999] == 999
    assert less.tokens == 2024
    assert len(json.loads(tokenizer.tokenizer_files(less)["tokenizer.json"])["model"]["vocab"]) == 2024


def shape(**own: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
           "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768, "tie_word_embeddings": False,
           **own}
    )  # fmt: skip


def test_shrinking_keeps_the_ratios_and_what_is_no_size() -> None:
    config = shape(layer_types=["full_attention"] * 28, eos_token_id=[151645, 151643])
    assert tiny.shrink_config(config, vocabulary=1088, ids={151643: 1024, 151645: 1026})
    assert vars(config) == {
        "hidden_size": 224, "intermediate_size": 1184, "num_hidden_layers": 2, "num_attention_heads": 14,
        "num_key_value_heads": 2, "vocab_size": 1088, "max_position_embeddings": 4096, "tie_word_embeddings": False,
        "layer_types": ["full_attention"] * 2, "eos_token_id": [1026, 1024],
    }  # fmt: skip


def test_shrinking_twice_changes_nothing_more() -> None:
    config = shape(head_dim=128, hidden_size=1024, num_attention_heads=16, num_key_value_heads=8, num_experts=128,
                   num_experts_per_tok=8, moe_intermediate_size=768)  # fmt: skip
    assert tiny.shrink_config(config)
    assert (config.head_dim, config.num_experts, config.num_experts_per_tok) == (16, 4, 2)
    once = dict(vars(config))
    assert not tiny.shrink_config(config)
    assert vars(config) == once


def test_each_kind_of_layer_stays() -> None:
    config = shape(layer_types=(["sliding_attention"] * 6 + ["full_attention"]) * 4, rates=list(range(28)))
    tiny.shrink_config(config)
    assert config.layer_types == ["sliding_attention", "full_attention"]
    assert config.rates == [0, 6]


def test_both_spellings_of_a_list_of_layers_shrink() -> None:
    config = shape(attention_types=[[["global", "local"], 14]], attention_layers=["global", "local"] * 14)
    tiny.shrink_config(config)
    assert config.attention_layers == ["global", "local"]
    assert config.attention_types == [[["global", "local"], 1]]


def test_every_stage_stays_with_fewer_layers() -> None:
    config = SimpleNamespace(depths=[2, 2, 18, 2], num_layers=4, num_heads=[4, 8, 16, 32], out_features=["stage4"])
    assert tiny.shrink_config(config)
    assert (config.depths, config.num_layers, config.num_heads) == ([2, 2, 2, 2], 4, [4, 8, 16, 32])


def test_what_pools_is_as_wide_as_what_it_pools() -> None:
    config = shape(pooler_hidden_size=3584)
    tiny.shrink_config(config)
    assert config.pooler_hidden_size == config.hidden_size == 224


def test_scaled_positions_stay() -> None:
    config = shape(rope_scaling={"rope_type": "llama3", "original_max_position_embeddings": 8192})
    tiny.shrink_config(config)
    assert config.max_position_embeddings == 32768


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "neither a file, a folder nor a known model"),
        ("{", "config.json: not JSON"),
        ("[]", "not a configuration"),
    ],
)
def test_what_is_no_configuration_is_one_line(tmp_path: Path, content: str | None, line: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(make.SkeletonError, match=line) as refused:
        make.skeleton_source(str(tmp_path / "config.json"))
    assert "\n" not in str(refused.value)


def test_a_configuration_without_a_tokenizer_gets_one_with_its_ids() -> None:
    made = make.fitting_family({"model_type": "nobodys", "vocab_size": 999, "eos_token_id": [7, 8], "bos_token_id": 7})
    assert (made.tokens, made.special, made.eos, made.pad) == (999, {7: made.eos}, made.bos, made.eos)
    known = make.fitting_family({"model_type": "qwen2", "vocab_size": 151936, "eos_token_id": 151643})
    assert known.eos == "<|endoftext|>"


@pytest.mark.parametrize(
    ("family", "size"),
    [("gpt2", 50_257), ("roberta", 50_265), ("clip", 49_408), ("qwen-2.5", 151_643), ("albert", 30_000)],
)
def test_the_vocabulary_proper_has_its_published_size(family: str, size: int) -> None:
    """``tokenizer.vocab_size``, up to which programs draw random tokens."""
    own = json.loads(tokenizer.tokenizer_files(tokenizer_families()[family])["tokenizer.json"])
    assert len(own["model"]["vocab"]) == size
    assert max(own["model"]["vocab"].values()) == size - 1
