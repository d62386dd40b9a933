"""Known models that see, and may read: Gemma 3, LLaVA 1.5, PaliGemma and DINOv2. Data, without torch.

Sources. Gemma 3: ``Gemma3Config`` of transformers; github.com/AI-Hypercomputer/maxtext (hf_model_configs.py) and
github.com/Lightning-AI/litgpt (config.py), the rows of the embedding by TransformerLens (loading_from_pretrained.py). LLaVA
1.5 7B: its files as copied in github.com/tung2kg1/AI-Stock-Chart-Analysis (llava-1.5-7b-hf). PaliGemma: transformers'
``convert_paligemma_weights_to_hf.py`` and ``PaliGemmaProcessor``. DINOv2: ``convert_dinov2_to_hf.py``. The number of
parameters is compared with that of keras-hub's presets (tests/skeletons/test_vision_models.py).
"""

from __future__ import annotations

from typing import Any

from skeletons.sizes import BF16, FP16, decoder_sizes, encoder_sizes

_HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
_CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
_TAKEN = {"do_resize": True, "do_normalize": True, "do_rescale": True, "rescale_factor": 1 / 255}

#: of the tower of Gemma 3 and PaliGemma
_SIGLIP = {**encoder_sizes(1152, 4304, 27, 16), "model_type": "siglip_vision_model", "patch_size": 14}

#: name -> (configuration, family of its tokenizer, ``preprocessor_config.json``)
_Seers = dict[str, tuple[dict[str, Any], str, dict[str, Any]]]


def _gemma_3() -> _Seers:
    images = {**_HALF, **_TAKEN, "image_processor_type": "Gemma3ImageProcessor", "processor_class": "Gemma3Processor",
              "size": {"height": 896, "width": 896}, "resample": 2, "image_seq_length": 256}  # fmt: skip
    table: _Seers = {}
    for size, sizes, own in (
        ("4b", (2560, 10_240, 34, 8, 4), {"head_dim": 256, "query_pre_attn_scalar": 256}),
        ("12b", (3840, 15_360, 48, 16, 8), {"head_dim": 256, "query_pre_attn_scalar": 256}),
        ("27b", (5376, 21_504, 62, 32, 16), {"head_dim": 128, "query_pre_attn_scalar": 168}),
    ):
        text = {
            **decoder_sizes(*sizes), **own, "model_type": "gemma3_text", "vocab_size": 262_208, "sliding_window": 1024,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "max_position_embeddings": 131_072,
        }  # fmt: skip
        config = {
            "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", **BF16, "text_config": text,
            "vision_config": {**_SIGLIP, "image_size": 896, "vision_use_head": False}, "mm_tokens_per_image": 256,
            "boi_token_index": 255_999, "eoi_token_index": 256_000, "image_token_index": 262_144, "bos_token_id": 2,
            "eos_token_id": 1, "pad_token_id": 0,
        }  # fmt: skip
        table[f"google/gemma-3-{size}-pt"] = (config, "gemma-3-images", images)
        table[f"google/gemma-3-{size}-it"] = ({**config, "eos_token_id": [1, 106]}, "gemma-3-images-chat", images)
    return table


def _llava() -> _Seers:
    text = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32_064, "rms_norm_eps": 1e-5,
            "max_position_embeddings": 4096, **FP16}  # fmt: skip
    vision = {**encoder_sizes(1024, 4096, 24, 16), "model_type": "clip_vision_model", "image_size": 336, "patch_size": 14,
              "projection_dim": 768, "vocab_size": 32_000}  # fmt: skip
    config = {
        "architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", **FP16, "vocab_size": 32_064,
        "text_config": text, "vision_config": vision, "projector_hidden_act": "gelu", "image_token_index": 32_000,
        "pad_token_id": 32_001, "vision_feature_layer": -2, "vision_feature_select_strategy": "default",
        "tie_word_embeddings": False,
    }  # fmt: skip
    images = {
        **_CLIP, **_TAKEN, "image_processor_type": "CLIPImageProcessor", "processor_class": "LlavaProcessor",
        "do_center_crop": True, "do_convert_rgb": True, "resample": 3, "size": {"shortest_edge": 336},
        "crop_size": {"height": 336, "width": 336},
    }  # fmt: skip
    return {"llava-hf/llava-1.5-7b-hf": (config, "llava", images)}


def _paligemma() -> _Seers:
    table: _Seers = {}
    text = {**decoder_sizes(2048, 16_384, 18, 8, 1), "model_type": "gemma", "vocab_size": 257_216, "head_dim": 256}
    for pixels in (224, 448):
        vision = {**_SIGLIP, "image_size": pixels, "projection_dim": 2048, "vision_use_head": False,
                  "num_image_tokens": (pixels // 14) ** 2}  # fmt: skip
        config = {
            "architectures": ["PaliGemmaForConditionalGeneration"], "model_type": "paligemma", "text_config": text,
            "vision_config": vision, "hidden_size": 2048, "projection_dim": 2048, "image_token_index": 257_152,
            "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "torch_dtype": "float32",
        }  # fmt: skip
        images = {
            **_HALF, **_TAKEN, "image_processor_type": "SiglipImageProcessor", "processor_class": "PaliGemmaProcessor",
            "size": {"height": pixels, "width": pixels}, "resample": 3, "image_seq_length": (pixels // 14) ** 2,
        }  # fmt: skip
        for kind in ("pt", "mix"):
            table[f"google/paligemma-3b-{kind}-{pixels}"] = (config, "paligemma", images)
    return table


def _dinov2() -> _Seers:
    images = {**_IMAGENET, **_TAKEN, "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256},
              "do_center_crop": True, "crop_size": {"height": 224, "width": 224}, "do_convert_rgb": True,
              "resample": 3}  # fmt: skip
    return {
        f"facebook/dinov2-{size}": (
            {"architectures": ["Dinov2Model"], "model_type": "dinov2", "image_size": 518, "patch_size": 14,
             "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": hidden // 64},
            "",
            images,
        )
        for size, hidden, layers in (("small", 384, 12), ("base", 768, 12), ("large", 1024, 24))
    }  # fmt: skip


_SEERS = {**_gemma_3(), **_llava(), **_paligemma(), **_dinov2()}

#: name on the hub -> (configuration, family of its tokenizer)
MODELS = {name: (config, family) for name, (config, family, _) in _SEERS.items()}

#: name on the hub -> its ``preprocessor_config.json``
PREPROCESSORS = {name: images for name, (_, _, images) in _SEERS.items()}

#: name on the hub -> its ``processor_config.json``, of those whose processor has no defaults for it
PROCESSORS: dict[str, dict[str, Any]] = {
    "llava-hf/llava-1.5-7b-hf": {
        "processor_class": "LlavaProcessor",
        "image_token": "<image>",
        "patch_size": 14,
        "num_additional_image_tokens": 1,
        "vision_feature_select_strategy": "default",
    }
}
