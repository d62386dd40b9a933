"""Known models of diffusers: name on the hub -> the content of each folder of its repository. Data, without torch.

A pipeline's repository has a ``model_index.json`` and a folder per component; a repository of one component has it at the
top (`TOP`). Sources: the ``config.json`` of each folder (``https://huggingface.co/NAME/blob/main/FOLDER/config.json``).
Fields are left out whose value is the default of diffusers' class. Tests compare the numbers of parameters with published
ones.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from skeletons.sizes import FP16, encoder_sizes

#: The folder of a repository that is one component.
TOP = ""


@dataclasses.dataclass(frozen=True)
class Component:
    """A folder of a repository."""

    library: str  #: ``diffusers`` or ``transformers``
    kind: str  #: its class
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)  #: its configuration
    family: str = ""  #: of a tokenizer, in `skeletons.families`
    dtype: str | None = None  #: of the stored weights; None is fp32


@dataclasses.dataclass(frozen=True)
class Pipeline:
    kind: str  #: class of the pipeline; empty for one component
    components: dict[str, Component]  #: by folder


# -- parts that several share ----------------------------------------------------------------------------------------

_DOWN, _UP = "CrossAttnDownBlock2D", "CrossAttnUpBlock2D"


def _unet(cross_attention: int, heads: Any, **fields: Any) -> Component:
    """Return the U-Net of Stable Diffusion. diffusers calls the number of heads ``attention_head_dim``."""
    given = {
        "block_out_channels": [320, 640, 1280, 1280],
        "down_block_types": [_DOWN, _DOWN, _DOWN, "DownBlock2D"],
        "up_block_types": ["UpBlock2D", _UP, _UP, _UP],
        "layers_per_block": 2,
        "in_channels": 4,
        "out_channels": 4,
        "sample_size": 64,
        "cross_attention_dim": cross_attention,
        "attention_head_dim": heads,
        **fields,
    }
    return Component("diffusers", "UNet2DConditionModel", given)


def _vae(pixels: int, dtype: str | None = None, **fields: Any) -> Component:
    given = {
        "block_out_channels": [128, 256, 512, 512],
        "down_block_types": ["DownEncoderBlock2D"] * 4,
        "up_block_types": ["UpDecoderBlock2D"] * 4,
        "layers_per_block": 2,
        "latent_channels": 4,
        "sample_size": pixels,
        **fields,
    }
    return Component("diffusers", "AutoencoderKL", given, dtype=dtype)


def _vae_of_16_channels(dtype: str, **fields: Any) -> Component:
    return _vae(1024, dtype, latent_channels=16, use_quant_conv=False, use_post_quant_conv=False, **fields)


def _clip_text(
    sizes: tuple[int, int, int], act: str, projection: int, pooled: bool = False, **fields: Any
) -> Component:
    """Return a text encoder of CLIP's; ``sizes`` are width, layers, heads. The ids are those that the repositories give,
    which are not the tokenizer's."""
    hidden, layers, heads = sizes
    kind = "CLIPTextModelWithProjection" if pooled else "CLIPTextModel"
    given = {
        "architectures": [kind],
        "model_type": "clip_text_model",
        "vocab_size": 49_408,
        "max_position_embeddings": 77,
        "hidden_act": act,
        "projection_dim": projection,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 1,
        **encoder_sizes(hidden, 4 * hidden, layers, heads),
        **fields,
    }
    return Component("transformers", kind, given, dtype=given.get("torch_dtype"))


def _t5(dtype: str) -> Component:
    """Return the encoder of T5 1.1 XXL."""
    given = {
        "architectures": ["T5EncoderModel"],
        "model_type": "t5",
        "vocab_size": 32_128,
        "d_model": 4096,
        "d_kv": 64,
        "d_ff": 10_240,
        "num_layers": 24,
        "num_decoder_layers": 24,
        "num_heads": 64,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": dtype,
    }
    return Component("transformers", "T5EncoderModel", given, dtype=dtype)


_CLIP_TOKENIZER = Component("transformers", "CLIPTokenizer", family="clip")
_T5_TOKENIZER = Component("transformers", "T5TokenizerFast", family="t5")
_CLIP_L = (768, 12, 12)
_CLIP_G = (1280, 32, 20)
_BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}


def _scheduler(kind: str, **fields: Any) -> Component:
    return Component("diffusers", kind, fields)


# -- pipelines -------------------------------------------------------------------------------------------------------

_PNDM = _scheduler("PNDMScheduler", **_BETAS, skip_prk_steps=True, set_alpha_to_one=False)

_SD_1 = Pipeline(
    "StableDiffusionPipeline",
    {
        "tokenizer": _CLIP_TOKENIZER,
        "text_encoder": _clip_text(_CLIP_L, "quick_gelu", 768),
        "vae": _vae(512),
        "unet": _unet(768, 8),
        "scheduler": _PNDM,
    },
)


def _sd_2(pixels: int, prediction: str, **fields: Any) -> Pipeline:
    return Pipeline(
        "StableDiffusionPipeline",
        {
            "tokenizer": _CLIP_TOKENIZER,
            "text_encoder": _clip_text((1024, 23, 16), "gelu", 512),
            "vae": _vae(768),
            "unet": _unet(1024, [5, 10, 20, 20], use_linear_projection=True, sample_size=pixels // 8, **fields),
            "scheduler": _scheduler("DDIMScheduler", **_BETAS, clip_sample=False, set_alpha_to_one=False,
                                    prediction_type=prediction),
        },
    )  # fmt: skip


_SDXL = Pipeline(
    "StableDiffusionXLPipeline",
    {
        "tokenizer": _CLIP_TOKENIZER,
        "tokenizer_2": _CLIP_TOKENIZER,
        "text_encoder": _clip_text(_CLIP_L, "quick_gelu", 768),
        "text_encoder_2": _clip_text(_CLIP_G, "gelu", 1280, pooled=True),
        "vae": _vae(1024, scaling_factor=0.13025, force_upcast=True),
        "unet": _unet(
            2048,
            [5, 10, 20],
            block_out_channels=[320, 640, 1280],
            down_block_types=["DownBlock2D", _DOWN, _DOWN],
            up_block_types=[_UP, _UP, "UpBlock2D"],
            transformer_layers_per_block=[1, 2, 10],
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=256,
            projection_class_embeddings_input_dim=2816,
            sample_size=128,
        ),
        "scheduler": _scheduler("EulerDiscreteScheduler", **_BETAS),
    },
)

_SD_3 = Pipeline(
    "StableDiffusion3Pipeline",
    {
        "tokenizer": _CLIP_TOKENIZER,
        "tokenizer_2": _CLIP_TOKENIZER,
        "tokenizer_3": _T5_TOKENIZER,
        "text_encoder": _clip_text(_CLIP_L, "quick_gelu", 768, pooled=True, **FP16),
        "text_encoder_2": _clip_text(_CLIP_G, "gelu", 1280, pooled=True, **FP16),
        "text_encoder_3": _t5("float16"),
        "vae": _vae_of_16_channels("float16", scaling_factor=1.5305, shift_factor=0.0609),
        "transformer": Component(
            "diffusers",
            "SD3Transformer2DModel",
            {"sample_size": 128, "patch_size": 2, "in_channels": 16, "out_channels": 16, "num_layers": 24,
             "attention_head_dim": 64, "num_attention_heads": 24, "joint_attention_dim": 4096,
             "caption_projection_dim": 1536, "pooled_projection_dim": 2048, "pos_embed_max_size": 192},
            dtype="float16",
        ),
        "scheduler": _scheduler("FlowMatchEulerDiscreteScheduler", shift=3.0),
    },
)  # fmt: skip

_FLUX = Pipeline(
    "FluxPipeline",
    {
        "tokenizer": _CLIP_TOKENIZER,
        "tokenizer_2": _T5_TOKENIZER,
        "text_encoder": _clip_text(_CLIP_L, "quick_gelu", 768, torch_dtype="bfloat16"),
        "text_encoder_2": _t5("bfloat16"),
        "vae": _vae_of_16_channels("bfloat16", scaling_factor=0.3611, shift_factor=0.1159),
        "transformer": Component(
            "diffusers",
            "FluxTransformer2DModel",
            {"patch_size": 1, "in_channels": 64, "num_layers": 19, "num_single_layers": 38, "attention_head_dim": 128,
             "num_attention_heads": 24, "joint_attention_dim": 4096, "pooled_projection_dim": 768,
             "guidance_embeds": True},
            dtype="bfloat16",
        ),
        "scheduler": _scheduler("FlowMatchEulerDiscreteScheduler", shift=3.0, use_dynamic_shifting=True),
    },
)  # fmt: skip

#: name on the hub -> its repository
PIPELINES: dict[str, Pipeline] = {
    **dict.fromkeys(
        (
            *("CompVis/stable-diffusion-v1-4", "runwayml/stable-diffusion-v1-5"),
            "stable-diffusion-v1-5/stable-diffusion-v1-5",
        ),
        _SD_1,
    ),
    "stabilityai/stable-diffusion-2-1": _sd_2(768, "v_prediction", upcast_attention=True),
    "stabilityai/stable-diffusion-2": _sd_2(768, "v_prediction"),
    "stabilityai/stable-diffusion-2-base": _sd_2(512, "epsilon"),
    "stabilityai/stable-diffusion-2-1-base": _sd_2(512, "epsilon"),
    "stabilityai/stable-diffusion-xl-base-1.0": _SDXL,
    "stabilityai/stable-diffusion-3-medium-diffusers": _SD_3,
    "black-forest-labs/FLUX.1-dev": _FLUX,
    **dict.fromkeys(("stabilityai/sd-vae-ft-ema", "stabilityai/sd-vae-ft-mse"), Pipeline("", {TOP: _vae(256)})),
    "madebyollin/sdxl-vae-fp16-fix": Pipeline("", {TOP: _vae(512, scaling_factor=0.13025, force_upcast=False)}),
}

_BY_LOWER = {name.lower(): name for name in PIPELINES}


def known(name: str) -> str | None:
    """Return the name in the table that a name on the hub means, without regard to case; None if there is none."""
    return _BY_LOWER.get(name.lower())
