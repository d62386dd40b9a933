"""Known models that translate: Marian's of OPUS, NLLB and mBART. Data, without torch.

Sources. Marian: github.com/huggingface/candle (models/marian.rs), which names the ``config.json`` of each; en-de: the
rows of transformers' ``MarianConfig``, which names it, the sizes of the others. NLLB 600M: its ``config.json`` as
copied in github.com/Higasa-Yumetaka/PyVoiceTranslate. mBART: the sizes of ``MBartConfig``, which names the first, the
rows by the languages of its tokenizer, the activation by ``convert_mbart_original_checkpoint_to_pytorch.py``.
"""

from __future__ import annotations

from typing import Any

from skeletons.sizes import Table


def _translator(architecture: str, kind: str, width: int, layers: int, heads: int, **fields: Any) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": kind,
        "d_model": width,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "num_hidden_layers": layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width,
        "decoder_ffn_dim": 4 * width,
        "is_encoder_decoder": True,
        "scale_embedding": True,
        **fields,
    }


_MARIAN_ROWS = {"en-de": 58_101, "en-fr": 59_514, "fr-en": 59_514, "en-ru": 62_518, "en-es": 65_001, "en-zh": 65_001}


def _marians() -> Table:
    return {
        f"Helsinki-NLP/opus-mt-{pair}": (
            _translator("MarianMTModel", "marian", 512, 6, 8, vocab_size=rows, decoder_vocab_size=rows,
                        max_position_embeddings=512, activation_function="swish", static_position_embeddings=True,
                        share_encoder_decoder_embeddings=True, eos_token_id=0, forced_eos_token_id=0, bos_token_id=0,
                        pad_token_id=rows - 1, decoder_start_token_id=rows - 1),
            f"marian-{rows}",
        )
        for pair, rows in _MARIAN_ROWS.items()
    }  # fmt: skip


def _of_languages() -> Table:
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 1024}
    nllb = _translator("M2M100ForConditionalGeneration", "m2m_100", 1024, 12, 16, **ids, vocab_size=256_206,
                       activation_function="relu", decoder_start_token_id=2, encoder_layerdrop=0, decoder_layerdrop=0,
                       torch_dtype="float32")  # fmt: skip
    mbart = _translator("MBartForConditionalGeneration", "mbart", 1024, 12, 16, **ids, activation_function="gelu",
                        forced_eos_token_id=2)  # fmt: skip
    fifty = {**mbart, "vocab_size": 250_054}
    tuned = {**fifty, "activation_function": "relu", "decoder_start_token_id": 2}
    first = {**mbart, "vocab_size": 250_027}
    table: Table = {
        "facebook/nllb-200-distilled-600M": (nllb, "nllb"),
        "facebook/mbart-large-cc25": (first, "mbart"),
        "facebook/mbart-large-en-ro": (first, "mbart"),
        "facebook/mbart-large-50": (fifty, "mbart-50"),
    }
    for kind in ("many-to-many", "one-to-many", "many-to-one"):
        table[f"facebook/mbart-large-50-{kind}-mmt"] = (tuned, "mbart-50")
    return table


MODELS: Table = {**_marians(), **_of_languages()}
