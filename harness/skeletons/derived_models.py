"""Known models that other people trained in the classes of Llama, Qwen2, Mistral, GPT-NeoX, StarCoder and BERT, or that
came between two versions. Data, without torch.

Sources: CodeLlama, OpenLLaMA, phi-4 and Mixtral 8x22B as in github.com/Lightning-AI/litgpt (litgpt/config.py, which names
the ``config.json`` of each); the others by their papers and model cards, without access to the repositories. Of
24 the number of parameters is compared with the published one (tests/skeletons/test_derived_models.py).
"""

from __future__ import annotations

from typing import Any

from skeletons.sizes import BF16, FP16, Table, encoder_sizes, like_llama


def _encoder(kind: str, *sizes: int, **fields: Any) -> dict[str, Any]:
    """Return the configuration of an encoder; ``sizes`` are those of `encoder_sizes`."""
    return {"model_type": kind, "layer_norm_eps": 1e-12, **encoder_sizes(*sizes), **fields}


# -- Llama -----------------------------------------------------------------------------------------------------------

_LLAMA_SIZES = {
    "7b": (4096, 11_008, 32, 32, 32),
    "13b": (5120, 13_824, 40, 40, 40),
    "30b": (6656, 17_920, 60, 52, 52),
    "65b": (8192, 22_016, 80, 64, 64),
}
_CODE_LLAMA_SIZES = {"7b": _LLAMA_SIZES["7b"], "13b": _LLAMA_SIZES["13b"], "34b": (8192, 22_016, 48, 64, 8)}


def _llamas() -> Table:
    ids = {"bos_token_id": 1, "eos_token_id": 2}
    first = {**ids, **FP16, "vocab_size": 32_000, "max_position_embeddings": 2048}
    table: Table = {}
    for size in ("13b", "30b", "65b"):
        table[f"huggyllama/llama-{size}"] = (
            like_llama("llama", *_LLAMA_SIZES[size], **first, pad_token_id=0),
            "llama-1",
        )
    open_sizes = {"3b": (3200, 8640, 26, 32, 32), "7b": _LLAMA_SIZES["7b"], "13b": _LLAMA_SIZES["13b"]}
    for size, sizes in open_sizes.items():
        for version in ("", "_v2") if size != "13b" else ("",):
            table[f"openlm-research/open_llama_{size}{version}"] = (like_llama("llama", *sizes, **first), "llama-1")
    for size, sizes in _CODE_LLAMA_SIZES.items():
        code = {**ids, **BF16, "rms_norm_eps": 1e-5, "rope_theta": 1_000_000.0, "max_position_embeddings": 16_384}
        for kind in ("", "-Python", "-Instruct"):
            fills_in = size != "34b" and kind != "-Python"  # with 16 tokens for that
            config = like_llama("llama", *sizes, **code, vocab_size=32_016 if fills_in else 32_000)
            family = "code-llama" if fills_in else "llama-2"
            for owner in ("codellama", "meta-llama"):
                table[f"{owner}/CodeLlama-{size}{kind}-hf"] = (config, family)
    coder_sizes = {
        "1.3b": (2048, 5504, 24, 16, 16),
        "6.7b": (4096, 11_008, 32, 32, 32),
        "33b": (7168, 19_200, 62, 56, 8),
    }
    for size, sizes in coder_sizes.items():
        coder = like_llama("llama", *sizes, **BF16, vocab_size=32_256, max_position_embeddings=16_384,
                         rope_theta=100_000.0, rope_scaling={"type": "linear", "factor": 4.0}, bos_token_id=32_013,
                         eos_token_id=32_014)  # fmt: skip
        table[f"deepseek-ai/deepseek-coder-{size}-base"] = (coder, "deepseek-coder")
        chat = {**coder, "eos_token_id": 32_021}
        table[f"deepseek-ai/deepseek-coder-{size}-instruct"] = (chat, "deepseek-coder-chat")
    return table


# -- Qwen ------------------------------------------------------------------------------------------------------------

#: size -> (sizes, rows of the embedding)
_QWEN_1_5_SIZES = {
    "0.5B": ((1024, 2816, 24, 16, 16), 151_936),
    "1.8B": ((2048, 5504, 24, 16, 16), 151_936),
    "4B": ((2560, 6912, 40, 20, 20), 151_936),
    "7B": ((4096, 11_008, 32, 32, 32), 151_936),
    "14B": ((5120, 13_696, 40, 40, 40), 152_064),
    "32B": ((5120, 27_392, 64, 40, 8), 152_064),
    "72B": ((8192, 24_576, 80, 64, 64), 152_064),
}


def _qwens() -> Table:
    table: Table = {}
    own = {**BF16, "rope_theta": 1_000_000.0, "max_position_embeddings": 32_768, "use_sliding_window": False}
    ids = {"bos_token_id": 151_643, "eos_token_id": 151_643}
    of_chat = {"bos_token_id": 151_643, "eos_token_id": 151_645}
    for size, (sizes, rows) in _QWEN_1_5_SIZES.items():
        config = like_llama("qwen2", *sizes, **own, **ids, vocab_size=rows)
        if size == "0.5B":
            config["tie_word_embeddings"] = True
        table[f"Qwen/Qwen1.5-{size}"] = (config, "qwen-2")
        table[f"Qwen/Qwen1.5-{size}-Chat"] = ({**config, **of_chat}, "qwen-2-chat")
    large = like_llama("qwen2", 8192, 29_568, 80, 64, 8, **own, **ids, vocab_size=152_064, rms_norm_eps=1e-5)
    table["Qwen/Qwen2-72B"] = ({**large, "max_position_embeddings": 131_072}, "qwen-2")
    table["Qwen/Qwen2-72B-Instruct"] = ({**large, **of_chat, "rms_norm_eps": 1e-6}, "qwen-2-chat")
    longer = {**own, **ids, "vocab_size": 152_064, "rope_theta": 300_000.0}
    table["open-r1/Qwen2.5-Math-7B-RoPE-300k"] = (like_llama("qwen2", 3584, 18_944, 28, 28, 4, **longer), "qwen-2.5")
    return table


# -- other decoders --------------------------------------------------------------------------------------------------


def _decoders() -> Table:
    mixtral = like_llama("mixtral", 6144, 16_384, 56, 48, 8, **BF16, vocab_size=32_768, rms_norm_eps=1e-5,
                       rope_theta=1_000_000.0, max_position_embeddings=65_536, num_local_experts=8, sliding_window=None,
                       num_experts_per_tok=2, bos_token_id=1, eos_token_id=2)  # fmt: skip
    phi_4 = like_llama("phi3", 5120, 17_920, 40, 40, 10, **BF16, vocab_size=100_352, rms_norm_eps=1e-5,
                     rope_theta=250_000.0, max_position_embeddings=16_384, original_max_position_embeddings=16_384,
                     sliding_window=None, bos_token_id=100_257, eos_token_id=100_265, pad_token_id=100_349)  # fmt: skip
    table: Table = {
        "mistralai/Mixtral-8x22B-v0.1": (mixtral, "mistral-3"),
        "mistralai/Mixtral-8x22B-Instruct-v0.1": (mixtral, "mistral-3-chat"),
        "microsoft/phi-4": (phi_4, "phi-4"),
    }
    #: Pythia's sizes, and the tokens of its instructions
    for size, (hidden, layers, heads) in {"3b": (2560, 32, 32), "7b": (4096, 32, 32), "12b": (5120, 36, 40)}.items():
        dolly = _encoder("gpt_neox", hidden, 4 * hidden, layers, heads, **BF16, architectures=["GPTNeoXForCausalLM"],
                         vocab_size=50_280, hidden_act="gelu", max_position_embeddings=2048, rotary_pct=0.25,
                         layer_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)  # fmt: skip
        table[f"databricks/dolly-v2-{size}"] = (dolly, "dolly")
    for name, (hidden, wide, layers, heads) in {
        "starcoderbase-1b": (2048, 8192, 24, 16),
        "starcoderbase-3b": (2816, 11_264, 36, 22),
        "starcoderbase-7b": (4096, 16_384, 42, 32),
        "starcoderbase": (6144, 24_576, 40, 48),
        "starcoder": (6144, 24_576, 40, 48),
    }.items():
        config = {
            "architectures": ["GPTBigCodeForCausalLM"],
            "model_type": "gpt_bigcode",
            "vocab_size": 49_152,
            "n_positions": 8192,
            "n_embd": hidden,
            "n_inner": wide,
            "n_layer": layers,
            "n_head": heads,
            "multi_query": True,
            "bos_token_id": 0,
            "eos_token_id": 0,
        }
        table[f"bigcode/{name}"] = (config, "starcoder2")
    return table


# -- encoders --------------------------------------------------------------------------------------------------------

_ENCODER_SIZES = {"base": (768, 3072, 12, 12), "large": (1024, 4096, 24, 16)}


def _encoders() -> Table:
    table: Table = {}
    small = (384, 1536, 12, 12)
    bert = {"architectures": ["BertModel"], "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 0}
    for size, sizes in {"small": small, **_ENCODER_SIZES}.items():
        english = (_encoder("bert", *sizes, **bert, vocab_size=30_522), "bert-uncased")
        table[f"BAAI/bge-{size}-en"] = table[f"BAAI/bge-{size}-en-v1.5"] = english
        table[f"intfloat/e5-{size}"] = table[f"intfloat/e5-{size}-v2"] = english
        table[f"thenlper/gte-{size}"] = english
        chinese = (_encoder("bert", *((512, 2048, 4, 8) if size == "small" else sizes), **bert, vocab_size=21_128),
                   "bert-chinese")  # fmt: skip
        table[f"BAAI/bge-{size}-zh"] = table[f"BAAI/bge-{size}-zh-v1.5"] = chinese
    masked = {**bert, "architectures": ["BertForMaskedLM"], "vocab_size": 21_128}
    for name, size in {
        "bert-base-chinese": "base",
        "google-bert/bert-base-chinese": "base",
        "hfl/chinese-bert-wwm-ext": "base",
        "hfl/chinese-roberta-wwm-ext": "base",
        "hfl/chinese-roberta-wwm-ext-large": "large",
    }.items():
        table[name] = (_encoder("bert", *_ENCODER_SIZES[size], **masked), "bert-chinese")
    several = {"vocab_size": 250_002, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "bos_token_id": 0, "pad_token_id": 1,
               "eos_token_id": 2}  # fmt: skip
    pairs = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    for name, size, positions, ranks_pairs in (
        ("BAAI/bge-m3", "large", 8194, False),
        ("BAAI/bge-reranker-base", "base", 514, True),
        ("BAAI/bge-reranker-large", "large", 514, True),
        ("BAAI/bge-reranker-v2-m3", "large", 8194, True),
        ("intfloat/multilingual-e5-base", "base", 514, False),
        ("intfloat/multilingual-e5-large", "large", 514, False),
    ):
        architecture = "XLMRobertaForSequenceClassification" if ranks_pairs else "XLMRobertaModel"
        config = _encoder("xlm-roberta", *_ENCODER_SIZES[size], **several, architectures=[architecture],
                          max_position_embeddings=positions, **(pairs if ranks_pairs else {}))  # fmt: skip
        table[name] = (config, "xlm-roberta-long" if positions > 514 else "xlm-roberta")
    modern = {"architectures": ["ModernBertForMaskedLM"], "vocab_size": 50_368, "max_position_embeddings": 8192}
    for size, sizes in {"base": (768, 1152, 22, 12), "large": (1024, 2624, 28, 16)}.items():
        table[f"answerdotai/ModernBERT-{size}"] = (_encoder("modernbert", *sizes, **modern), "modernbert")
    return table


MODELS: Table = {**_llamas(), **_qwens(), **_decoders(), **_encoders()}
