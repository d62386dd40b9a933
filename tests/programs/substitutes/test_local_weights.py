"""Programs load models by name, through transformers' own code, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import huggingface_hub  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from dsregress.probe.border.faults import signature_of  # noqa: E402
from dsregress.programs.substitutes.local_weights import LocalWeights, local_weights  # noqa: E402
from dsregress.programs.world.resource_errors import NotHere  # noqa: E402
from skeletons import parameters  # noqa: E402

NAME = "Qwen/Qwen2.5-0.5B-Instruct"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("skeletons")


@pytest.fixture
def small(folder: Path) -> Iterator[LocalWeights]:
    with local_weights(folder, tiny=True, contents=True) as weights:
        yield weights


def test_a_known_model_is_loaded_small_with_weights_of_their_names(small: LocalWeights) -> None:
    model = AutoModelForCausalLM.from_pretrained(NAME)
    assert (model.config.num_hidden_layers, model.config.hidden_size, model.config.tie_word_embeddings) == (
        2,
        224,
        True,
    )
    assert model.lm_head.weight is model.get_input_embeddings().weight
    for name in ("model.layers.1.mlp.up_proj.weight", "model.norm.weight"):
        held = model.get_parameter(name)
        wanted = parameters.parameter_value(name, tuple(held.shape)).bfloat16().float()
        torch.testing.assert_close(held.float(), wanted, rtol=0, atol=0)
    assert small.known(NAME) is not None


def test_the_tokenizer_fits_and_takes_any_text(small: LocalWeights) -> None:
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    config = AutoConfig.from_pretrained(NAME)
    text = "Zürich: 12 people wrote\n\tthe other 🙂"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert max(ids) < len(tokenizer) <= config.vocab_size < 2048
    assert tokenizer.eos_token_id == config.eos_token_id
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")


def test_a_saved_model_is_loaded_as_it_was_saved(small: LocalWeights, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(NAME)
    with torch.no_grad():
        model.model.norm.weight.fill_(7)
    model.save_pretrained(tmp_path / "mine")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "mine")
    assert again.model.norm.weight.unique().item() == 7


def test_a_larger_model_of_the_users_is_replaced_by_a_small_one(small: LocalWeights, tmp_path: Path) -> None:
    large = {"model_type": "llama", "num_hidden_layers": 40, "hidden_size": 4096, "num_attention_heads": 32,
             "intermediate_size": 11008, "vocab_size": 3000, "architectures": ["LlamaForCausalLM"]}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(large))
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path))
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (2, 64)
    assert model.config.vocab_size == 3000  # the user's data has ids of the user's tokenizer
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json"]


def test_a_model_of_the_programs_own_configuration_is_small(small: LocalWeights) -> None:
    config = transformers.LlamaConfig(num_hidden_layers=32, vocab_size=512)
    assert AutoModelForCausalLM.from_config(config).config.num_hidden_layers == 2
    direct = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=12, vocab_size=512))
    assert sum(parameter.numel() for parameter in direct.parameters()) < 300_000
    assert small.shrunk >= {"LlamaConfig", "GPT2Config"}


def test_files_are_where_the_hub_puts_them(folder: Path) -> None:
    before = huggingface_hub.hf_hub_download
    with local_weights(folder):
        config = huggingface_hub.hf_hub_download("gpt2", "config.json")
        assert json.loads(Path(config).read_text())["n_embd"] == 768
        assert huggingface_hub.try_to_load_from_cache("gpt2", "config.json") == config
        assert huggingface_hub.try_to_load_from_cache("gpt2", "none.json") is huggingface_hub._CACHED_NO_EXIST
        assert huggingface_hub.snapshot_download("gpt2") == str(Path(config).parent)
        assert huggingface_hub.HfApi().model_info("gpt2").id == "gpt2"
        with pytest.raises(huggingface_hub.utils.EntryNotFoundError):
            huggingface_hub.hf_hub_download("gpt2", "none.json")
        sizes = [file.stat() for file in Path(config).parent.glob("*.safetensors")]
        assert sum(size.st_size for size in sizes) > 4 * 124e6
        assert sum(size.st_blocks * 512 for size in sizes) < 1 << 20
    assert huggingface_hub.hf_hub_download is before
    assert transformers.utils.hub.hf_hub_download is before


@pytest.mark.parametrize("kind", [AutoConfig, AutoTokenizer, AutoModelForCausalLM])
def test_an_unknown_name_is_one_line_with_the_way_out(folder: Path, tmp_path: Path, kind: type) -> None:
    program = tmp_path / "train.py"
    program.write_text('kind.from_pretrained("nobody-inc/Nothing-7B-Base")')
    with (
        local_weights(folder),
        pytest.raises(NotHere, match="`skeleton config.json --out nobody-inc/Nothing") as refused,
    ):
        exec(compile(program.read_text(), str(program), "exec"), {"kind": kind})
    assert "nobody-inc/Nothing-7B-Base" in str(refused.value)
    assert signature_of(refused.value).endswith("makes it")  # nothing is cut off
    assert str(refused.value).startswith("train.py:1:")
    assert "\n" not in str(refused.value)


def test_a_model_with_code_of_its_own_is_refused_as_such(folder: Path) -> None:
    with local_weights(folder), pytest.raises(NotHere) as refused:
        AutoConfig.from_pretrained("OpenGVLab/InternVL3-8B", trust_remote_code=True)
    assert str(refused.value).partition("OpenGVLab")[2] == (
        "/InternVL3-8B is not here, and its classes are code of its repository: "
        "`skeleton config.json --out OpenGVLab/InternVL3-8B` makes it, with the Python files of its repository beside "
        "config.json, or name OpenGVLab/InternVL3-8B-hf, which is known"
    )
    assert signature_of(refused.value).endswith("which is known")  # nothing is cut off


def test_the_users_cache_comes_first(folder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--nobody--mine" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=300)
    transformers.GPT2LMHeadModel(config).save_pretrained(snapshot)
    with local_weights(folder) as weights:
        model = AutoModelForCausalLM.from_pretrained("nobody/mine", cache_dir=tmp_path)
        assert model.config.n_embd == 8
    assert weights.known("nobody/mine", tmp_path) is None


def test_trackers_are_off(folder: Path) -> None:
    import os

    from transformers.integrations.integration_utils import get_reporting_integration_callbacks  # noqa: F401

    before = os.environ.get("WANDB_MODE")
    with local_weights(folder):
        from transformers.integrations import integration_utils

        assert integration_utils.get_reporting_integration_callbacks(["wandb", "nothing"]) == []
        assert os.environ["WANDB_MODE"] == "offline"
    assert os.environ.get("WANDB_MODE") == before
