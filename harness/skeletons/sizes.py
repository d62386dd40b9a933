"""Sizes of transformers, by the fields of their ``config.json``, which the tables of known models share. Without torch."""

from __future__ import annotations

from typing import Any

#: Name on the hub -> (configuration, family of its tokenizer in `skeletons.families`).
Table = dict[str, tuple[dict[str, Any], str]]

BF16 = {"torch_dtype": "bfloat16"}
FP16 = {"torch_dtype": "float16"}

_CLASSES = {"llama": "Llama", "qwen2": "Qwen2", "mixtral": "Mixtral", "phi3": "Phi3"}


def encoder_sizes(hidden: int, intermediate: int, layers: int, heads: int) -> dict[str, Any]:
    """Return the fields of an encoder's sizes."""
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }


def decoder_sizes(hidden: int, intermediate: int, layers: int, heads: int, key_value_heads: int) -> dict[str, Any]:
    """Return the fields of a decoder's sizes: those of an encoder, and the number of key-value heads."""
    return {**encoder_sizes(hidden, intermediate, layers, heads), "num_key_value_heads": key_value_heads}


def like_llama(kind: str, *sizes: int, **fields: Any) -> dict[str, Any]:
    """Return the configuration of a decoder of Llama's kind; ``sizes`` are those of `decoder_sizes`."""
    return {
        "architectures": [f"{_CLASSES[kind]}ForCausalLM"],
        "model_type": kind,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        **decoder_sizes(*sizes),
        **fields,
    }
