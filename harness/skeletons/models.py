"""Known models: name on the hub -> published configuration. Data, without torch.

Sources, per family: the ``config.json`` of each repository (``https://huggingface.co/NAME/blob/main/config.json``), as
published there or as quoted in derivatives that name it as their ``_name_or_path``; ids of special tokens: the
``tokenizer_config.json`` next to it. Read in November 2026: Qwen/Qwen2.5-32B itself; collected configurations of
Llama-3.1-8B, Llama-3.2-3B, Qwen2.5-{3B,7B,14B,32B} and Qwen3-{4B,8B,14B,32B,30B-A3B}
(github.com/citsjtu2020/LLM-Prof, sglang/Model_Config.md); Llama-3.2-1B (github.com/kevinstephano/thunder_model_blocks);
Meta-Llama-3-70B, Qwen2.5-{0.5B,3B,7B,32B,72B}(-Instruct), Qwen3-0.6B and facebook/opt-{125m,350m} by copies of their
``config.json`` on huggingface.co; Qwen3-4B-Instruct-2507 (github.com/akougkas/warpio-cli, its ``config.json`` in full);
Mixtral-8x7B-v0.1 (github.com/huggingface/candle, models/mixtral.rs; its auxiliary loss: the configuration in Google's
torchprime). Other sizes are those of the papers and model cards of the same families.

Left out are fields that say nothing about shapes, memory or the path through the code: dropout that is zero,
``initializer_range`` (the classes' default is the published 0.02), ``max_window_layers`` and ``sliding_window`` where
``use_sliding_window`` is false.
"""

from __future__ import annotations

from typing import Any

from skeletons import decoders, derived_models, encoders, more_models, translators, vision_models
from skeletons.sizes import decoder_sizes

# -- Llama -----------------------------------------------------------------------------------------------------------

_LLAMA_3 = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 128_256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 128_000,
    "eos_token_id": 128_001,
}
_LLAMA_3_1_EOS = [128_001, 128_008, 128_009]


def _rope(factor: float) -> dict[str, Any]:
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


_8B = decoder_sizes(4096, 14336, 32, 32, 8)
_70B = decoder_sizes(8192, 28672, 80, 64, 8)

_LLAMA_2 = {
    **_LLAMA_3,
    "vocab_size": 32_000,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 4096,
    "torch_dtype": "float16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MISTRAL = {
    **_LLAMA_2,
    **_8B,
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "max_position_embeddings": 32_768,
    "torch_dtype": "bfloat16",
}

_MIXTRAL = {
    **_MISTRAL,
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "router_aux_loss_coef": 0.02,
    "rope_theta": 1_000_000.0,
    "sliding_window": None,
}

# -- Qwen ------------------------------------------------------------------------------------------------------------

_QWEN_2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "vocab_size": 152_064,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131_072,
    "bos_token_id": 151_643,
    "eos_token_id": 151_643,
}
_SMALL = {"vocab_size": 151_936, "tie_word_embeddings": True}

#: size -> (sizes, fields of the base model only)
_QWEN_2_5: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "0.5B": (decoder_sizes(896, 4864, 24, 14, 2), {**_SMALL, "max_position_embeddings": 32_768}),
    "1.5B": (decoder_sizes(1536, 8960, 28, 12, 2), _SMALL),
    "3B": (decoder_sizes(2048, 11008, 36, 16, 2), {**_SMALL, "max_position_embeddings": 32_768}),
    "7B": (decoder_sizes(3584, 18944, 28, 28, 4), {}),
    "14B": (decoder_sizes(5120, 13824, 48, 40, 8), {"rms_norm_eps": 1e-5}),
    "32B": (decoder_sizes(5120, 27648, 64, 40, 8), {"rms_norm_eps": 1e-5}),
    "72B": (decoder_sizes(8192, 29568, 80, 64, 8), {"rms_norm_eps": 1e-5}),
}
_QWEN_2_5_INSTRUCT = {"max_position_embeddings": 32_768, "rms_norm_eps": 1e-6, "eos_token_id": 151_645}

_QWEN_3 = {
    **_QWEN_2,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 151_936,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "eos_token_id": 151_645,
}
_QWEN_3_BASE = {"max_position_embeddings": 32_768, "eos_token_id": 151_643}
_QWEN_3_SIZES = {
    "0.6B": {**decoder_sizes(1024, 3072, 28, 16, 8), "tie_word_embeddings": True},
    "1.7B": {**decoder_sizes(2048, 6144, 28, 16, 8), "tie_word_embeddings": True},
    "4B": {**decoder_sizes(2560, 9728, 36, 32, 8), "tie_word_embeddings": True},
    "8B": decoder_sizes(4096, 12288, 36, 32, 8),
    "14B": decoder_sizes(5120, 17408, 40, 40, 8),
    "32B": decoder_sizes(5120, 25600, 64, 64, 8),
    "30B-A3B": {
        **decoder_sizes(2048, 6144, 48, 32, 4),
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "router_aux_loss_coef": 0.001,
    },
}

#: Of July 2025: size -> base of the rotation; their windows are of 262,144 tokens.
_QWEN_3_2507 = {"4B": 5_000_000.0, "30B-A3B": 10_000_000.0}

# -- GPT-2 and OPT ---------------------------------------------------------------------------------------------------

_GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "vocab_size": 50_257,
    "n_positions": 1024,
    "n_ctx": 1024,
    "bos_token_id": 50_256,
    "eos_token_id": 50_256,
}
_GPT2_SIZES = {
    "gpt2": (768, 12, 12),
    "gpt2-medium": (1024, 24, 16),
    "gpt2-large": (1280, 36, 20),
    "gpt2-xl": (1600, 48, 25),
}

_OPT = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "activation_function": "relu",
    "vocab_size": 50_272,
    "max_position_embeddings": 2048,
    "do_layer_norm_before": True,
    "torch_dtype": "float16",
    "bos_token_id": 2,
    "eos_token_id": 2,
    "pad_token_id": 1,
}
#: size -> (hidden size, layers, heads); feed-forward layers are four times as wide
_OPT_SIZES = {
    "125m": (768, 12, 12),
    "350m": (1024, 24, 16),
    "1.3b": (2048, 24, 32),
    "2.7b": (2560, 32, 32),
    "6.7b": (4096, 32, 32),
    "13b": (5120, 40, 40),
    "30b": (7168, 48, 56),
    "66b": (9216, 64, 72),
}

# -- SmolLM and SmolLM2 ----------------------------------------------------------------------------------------------

_SMOLLM_2 = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 49_152,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100_000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_SMOLLM = {"max_position_embeddings": 2048, "rope_theta": 10_000.0}  # the first, of the same sizes
_SMOLLM_2_SIZES = {
    "135M": decoder_sizes(576, 1536, 30, 9, 3),
    "360M": decoder_sizes(960, 2560, 32, 15, 5),
    "1.7B": {**decoder_sizes(2048, 8192, 24, 32, 32), "rope_theta": 130_000.0},
}

# -- BERT, DistilBERT, RoBERTa and Pythia ----------------------------------------------------------------------------

_BERT = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
_DISTILBERT = {
    "architectures": ["DistilBertForMaskedLM"],
    "model_type": "distilbert",
    "activation": "gelu",
    "max_position_embeddings": 512,
    "dim": 768,
    "hidden_dim": 3072,
    "n_layers": 6,
    "n_heads": 12,
    "pad_token_id": 0,
}
_ROBERTA = {
    "architectures": ["RobertaForMaskedLM"],
    "model_type": "roberta",
    "hidden_act": "gelu",
    "vocab_size": 50_265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
_ENCODER_SIZES = {"base": decoder_sizes(768, 3072, 12, 12, 12), "large": decoder_sizes(1024, 4096, 24, 16, 16)}
_WORDS = {"cased": 28_996, "uncased": 30_522}

_PYTHIA = {
    "architectures": ["GPTNeoXForCausalLM"],
    "model_type": "gpt_neox",
    "hidden_act": "gelu",
    "max_position_embeddings": 2048,
    "rotary_pct": 0.25,
    "rotary_emb_base": 10_000,
    "layer_norm_eps": 1e-5,
    "use_parallel_residual": True,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "bos_token_id": 0,
    "eos_token_id": 0,
}
#: size -> (hidden size, layers, heads, rows of the embedding); feed-forward layers are four times as wide
_PYTHIA_SIZES = {
    "70m": (512, 6, 8, 50_304),
    "160m": (768, 12, 12, 50_304),
    "410m": (1024, 24, 16, 50_304),
    "1b": (2048, 16, 8, 50_304),
    "1.4b": (2048, 24, 16, 50_304),
    "2.8b": (2560, 32, 32, 50_304),
    "6.9b": (4096, 32, 32, 50_432),
    "12b": (5120, 36, 40, 50_688),
}


def _table() -> dict[str, tuple[dict[str, Any], str]]:
    """Return name -> (configuration, its tokenizer in `skeletons.families`)."""
    table: dict[str, tuple[dict[str, Any], str]] = {}

    def add(name: str, family: str, *parts: dict[str, Any]) -> None:
        table[name] = ({key: value for part in parts for key, value in part.items()}, family)

    eight = {"max_position_embeddings": 8192}
    long = {"max_position_embeddings": 131_072}
    for size, sizes in {"8B": _8B, "70B": _70B}.items():
        add(f"meta-llama/Meta-Llama-3-{size}", "llama-3", _LLAMA_3, sizes, eight)
        add(
            f"meta-llama/Meta-Llama-3-{size}-Instruct",
            "llama-3-chat",
            _LLAMA_3,
            sizes,
            eight,
            {"eos_token_id": 128_009},
        )
        for prefix in ("meta-llama/Llama-3.1", "meta-llama/Meta-Llama-3.1"):
            of_3_1 = (_LLAMA_3, sizes, long, {"rope_scaling": _rope(8.0)})
            add(f"{prefix}-{size}", "llama-3.1", *of_3_1)
            add(f"{prefix}-{size}-Instruct", "llama-3.1-chat", *of_3_1, {"eos_token_id": _LLAMA_3_1_EOS})
    add(
        "meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-chat", _LLAMA_3, _70B, long,
        {"rope_scaling": _rope(8.0), "eos_token_id": _LLAMA_3_1_EOS},
    )  # fmt: skip
    for size, sizes in {
        "1B": {**decoder_sizes(2048, 8192, 16, 32, 8), "head_dim": 64},
        "3B": {**decoder_sizes(3072, 8192, 28, 24, 8), "head_dim": 128},
    }.items():
        of_3_2 = (_LLAMA_3, sizes, long, {"rope_scaling": _rope(32.0), "tie_word_embeddings": True})
        add(f"meta-llama/Llama-3.2-{size}", "llama-3.1", *of_3_2)
        add(f"meta-llama/Llama-3.2-{size}-Instruct", "llama-3.1-chat", *of_3_2, {"eos_token_id": _LLAMA_3_1_EOS})
    for size, sizes in {
        "7b": decoder_sizes(4096, 11008, 32, 32, 32),
        "13b": decoder_sizes(5120, 13824, 40, 40, 40),
        "70b": _70B,
    }.items():
        add(f"meta-llama/Llama-2-{size}-hf", "llama-2", _LLAMA_2, sizes)
        add(f"meta-llama/Llama-2-{size}-chat-hf", "llama-2-chat", _LLAMA_2, sizes)
    add("mistralai/Mistral-7B-v0.1", "mistral", _MISTRAL, {"sliding_window": 4096})
    add("mistralai/Mistral-7B-Instruct-v0.1", "mistral-chat", _MISTRAL, {"sliding_window": 4096})
    add(
        "mistralai/Mistral-7B-Instruct-v0.2",
        "mistral-chat",
        _MISTRAL,
        {"sliding_window": None, "rope_theta": 1_000_000.0},
    )
    add("mistralai/Mixtral-8x7B-v0.1", "mistral", _MIXTRAL)
    add("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistral-chat", _MIXTRAL)
    short = {"max_position_embeddings": 32_768}
    for size, (sizes, own) in _QWEN_2_5.items():
        add(f"Qwen/Qwen2.5-{size}", "qwen-2.5", _QWEN_2, sizes, own)
        add(f"Qwen/Qwen2.5-{size}-Instruct", "qwen-2.5-chat", _QWEN_2, sizes, own, _QWEN_2_5_INSTRUCT)
        if size != "72B":
            add(f"Qwen/Qwen2.5-Coder-{size}", "qwen-2.5", _QWEN_2, sizes, own, short)
            add(f"Qwen/Qwen2.5-Coder-{size}-Instruct", "qwen-2.5-chat", _QWEN_2, sizes, own, _QWEN_2_5_INSTRUCT)
        if size in ("1.5B", "7B", "72B"):
            of_math = (_QWEN_2, sizes, own, {"max_position_embeddings": 4096, "rope_theta": 10_000.0})
            add(f"Qwen/Qwen2.5-Math-{size}", "qwen-2.5", *of_math)
            add(f"Qwen/Qwen2.5-Math-{size}-Instruct", "qwen-2.5-chat", *of_math, {"eos_token_id": 151_645})
    for size in ("0.5B", "1.5B", "7B"):  # of which Qwen2.5 kept the sizes
        sizes, own = _QWEN_2_5[size]
        add(f"Qwen/Qwen2-{size}", "qwen-2", _QWEN_2, sizes, own, long)
        add(f"Qwen/Qwen2-{size}-Instruct", "qwen-2-chat", _QWEN_2, sizes, own, short, {"eos_token_id": 151_645})
    for size, sizes in _SMOLLM_2_SIZES.items():
        add(f"HuggingFaceTB/SmolLM2-{size}", "smollm", _SMOLLM_2, sizes)
        add(f"HuggingFaceTB/SmolLM-{size}", "smollm", _SMOLLM_2, sizes, _SMOLLM)
        ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
        add(f"HuggingFaceTB/SmolLM2-{size}-Instruct", "smollm-chat", _SMOLLM_2, sizes, ends)
    for size, sizes in _QWEN_3_SIZES.items():
        add(f"Qwen/Qwen3-{size}", "qwen-3", _QWEN_3, sizes)
        if size != "32B":  # whose base model is not published
            add(f"Qwen/Qwen3-{size}-Base", "qwen-3-base", _QWEN_3, sizes, _QWEN_3_BASE)
    for size, rotation in _QWEN_3_2507.items():
        own = {"max_position_embeddings": 262_144, "rope_theta": rotation}
        for kind in ("Instruct", "Thinking"):
            add(f"Qwen/Qwen3-{size}-{kind}-2507", "qwen-3", _QWEN_3, _QWEN_3_SIZES[size], own)
    for name, (hidden, layers, heads) in _GPT2_SIZES.items():
        for full in (name, f"openai-community/{name}"):
            add(full, "gpt2", _GPT2, {"n_embd": hidden, "n_layer": layers, "n_head": heads})
    for size, (hidden, layers, heads) in _OPT_SIZES.items():
        own = {"word_embed_proj_dim": 512, "do_layer_norm_before": False} if size == "350m" else {}
        sizes = {
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "ffn_dim": 4 * hidden,
        }
        add(f"facebook/opt-{size}", "opt", _OPT, sizes, {"word_embed_proj_dim": hidden}, own)
    for size, sizes in _ENCODER_SIZES.items():
        sizes = {name: value for name, value in sizes.items() if name != "num_key_value_heads"}
        for case, words in _WORDS.items():
            for full in (f"bert-{size}-{case}", f"google-bert/bert-{size}-{case}"):
                add(full, f"bert-{case}", _BERT, sizes, {"vocab_size": words})
        for full in (f"roberta-{size}", f"FacebookAI/roberta-{size}"):
            add(full, "roberta", _ROBERTA, sizes)
    for case, words in _WORDS.items():
        for full in (f"distilbert-base-{case}", f"distilbert/distilbert-base-{case}"):
            add(full, f"distilbert-{case}", _DISTILBERT, {"vocab_size": words})
    for size, (hidden, layers, heads, rows) in _PYTHIA_SIZES.items():
        sizes = {
            "hidden_size": hidden,
            "intermediate_size": 4 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "vocab_size": rows,
        }
        for full in (f"EleutherAI/pythia-{size}", f"EleutherAI/pythia-{size}-deduped"):
            add(full, "pythia", _PYTHIA, sizes)
    return table


#: name on the hub -> (configuration, family of its tokenizer)
MODELS = {
    **decoders.MODELS,
    **encoders.MODELS,
    **translators.MODELS,
    **vision_models.MODELS,
    **more_models.MODELS,
    **derived_models.MODELS,
    **_table(),
}

#: name on the hub -> its ``preprocessor_config.json``, of models that see or hear
PREPROCESSORS = {**more_models.PREPROCESSORS, **vision_models.PREPROCESSORS}
