"""Known decoders of further families: OLMo, Phi-3.5 and Phi-4-mini, Mistral's with its Tekken tokenizer, SmolLM3,
gpt-oss, large Qwens, DeepSeek-V2-Lite, Granite, GLM-4, StableLM, Mamba and others. Data, without torch.

Sources, each a copy of the published ``config.json`` unless it says otherwise. OLMo 2: github.com/mlc-ai/mlc-llm
(python/mlc_llm/model/model_preset.py) and, of 1B, OLMo 1B and OLMoE, github.com/dAppCore/go-inference
(go/model/arch/*/testdata), with the ids of ``configs/official-*`` of github.com/allenai/OLMo; OLMo 7B: defaults of
transformers' ``OlmoConfig``, which names it. Mistral Nemo: github.com/kevinstephano/thunder_model_blocks. Mistral
Small 3, Phi-3.5-mini and Phi-4-mini: github.com/OpenMOSE/RWKV-LM-RLHF (main/tokenizer). Phi-3-medium-4k:
github.com/dotnet/machinelearning (src/Microsoft.ML.GenAI.Phi/Resource/Config); Phi-3-mini-128k: dAppCore/go-inference.
SmolLM3: its configuration class, and the fields of the checkpoint as quoted in public tests of it. gpt-oss,
Qwen3-235B-A22B and Llama-3.1-405B: github.com/ai-dynamo/aiconfigurator (model_configs). Qwen1.5-MoE and
DeepSeek-V2-Lite: mlc-llm and go-inference. Qwen3-Next and GLM-4.5-Air: github.com/NVIDIA-NeMo/Megatron-Bridge
(tests/unit_tests/models) and their configuration classes. Granite 3.3 2B, CodeGen 350M and GLM-4-9B-0414:
go-inference; Granite 3.3 8B by a public collection of configurations, as its 2B otherwise. GLM-4-9B: ``GlmConfig``,
which names it. StableLM and RedPajama-INCITE 3B: mlc-llm. Mamba 130M: public scripts that quote it; the other sizes:
the table in github.com/state-spaces/mamba. OpenHermes 2.5: github.com/huggingface/candle (models/mistral.rs) and
tinygrad (examples/coder.py); OpenChat 3.5: scripts that print it. Yi 9B: the layers by the paper (arXiv 2403.04652),
as Yi 6B otherwise. Pythia 14M and 31M: litgpt. Tulu 3: github.com/allenai/open-instruct (finetune.py: one token for
padding, rows to a multiple of 8).

Of those whose number of parameters is published it is compared (tests/skeletons/test_decoders.py).
"""

from __future__ import annotations

from typing import Any

from skeletons import longrope
from skeletons.sizes import BF16, FP16, Table, decoder_sizes, encoder_sizes, like_llama

_FP32 = {"torch_dtype": "float32"}


def _decoder(architecture: str, kind: str, *sizes: int, **fields: Any) -> dict[str, Any]:
    """Return the configuration of a decoder; ``sizes`` are those of `decoder_sizes`."""
    return {
        "architectures": [architecture],
        "model_type": kind,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        **decoder_sizes(*sizes),
        **fields,
    }


# -- OLMo ------------------------------------------------------------------------------------------------------------

_OLMO_2_SIZES = {
    "0425-1B": (2048, 8192, 16, 16, 16),
    "1124-7B": (4096, 11_008, 32, 32, 32),
    "1124-13B": (5120, 13_824, 40, 40, 40),
    "0325-32B": (5120, 27_648, 64, 40, 8),
}


def _olmos() -> Table:
    table: Table = {}
    for size, sizes in _OLMO_2_SIZES.items():
        config = _decoder("Olmo2ForCausalLM", "olmo2", *sizes, vocab_size=100_352, max_position_embeddings=4096,
                          rms_norm_eps=1e-6, rope_theta=500_000.0, eos_token_id=100_257, pad_token_id=100_277)  # fmt: skip
        table[f"allenai/OLMo-2-{size}"] = ({**config, **_FP32}, "olmo-2")
        for kind in ("Instruct", "SFT", "DPO"):
            table[f"allenai/OLMo-2-{size}-{kind}"] = ({**config, **BF16}, "olmo-2-chat")
    for name, sizes, tied in (
        ("OLMo-1B-hf", (2048, 8192, 16, 16, 16), True),
        ("OLMo-7B-hf", (4096, 11_008, 32, 32, 32), False),
    ):
        config = _decoder("OlmoForCausalLM", "olmo", *sizes, **_FP32, vocab_size=50_304, max_position_embeddings=2048,
                          eos_token_id=50_279, pad_token_id=1)  # fmt: skip
        table[f"allenai/{name}"] = ({**config, "tie_word_embeddings": tied}, "olmo")
    mixture = _decoder("OlmoeForCausalLM", "olmoe", 2048, 1024, 16, 16, 16, **BF16, vocab_size=50_304,
                       max_position_embeddings=4096, num_experts=64, num_experts_per_tok=8, norm_topk_prob=False,
                       router_aux_loss_coef=0.01, eos_token_id=50_279, pad_token_id=1)  # fmt: skip
    table["allenai/OLMoE-1B-7B-0924"] = (mixture, "olmo")
    return table


# -- Mistral ---------------------------------------------------------------------------------------------------------


def _mistrals() -> Table:
    ids = {"bos_token_id": 1, "eos_token_id": 2, "sliding_window": None, "rms_norm_eps": 1e-5, **BF16}
    nemo = _decoder("MistralForCausalLM", "mistral", 5120, 14_336, 40, 32, 8, **ids, vocab_size=131_072, head_dim=128,
                    max_position_embeddings=128_000, rope_theta=1_000_000.0)  # fmt: skip
    small = {**nemo, "intermediate_size": 32_768, "max_position_embeddings": 32_768, "rope_theta": 100_000_000.0}
    seven = _decoder("MistralForCausalLM", "mistral", 4096, 14_336, 32, 32, 8, **{**ids, "sliding_window": 4096},
                     vocab_size=32_002, max_position_embeddings=32_768, rope_theta=10_000.0)  # fmt: skip
    with_end = {**seven, "eos_token_id": 32_000}
    openchat = {**with_end, "max_position_embeddings": 8192}
    return {
        "mistralai/Mistral-Nemo-Base-2407": (nemo, "mistral-nemo"),
        "mistralai/Mistral-Nemo-Instruct-2407": (nemo, "mistral-nemo-chat"),
        "mistralai/Mistral-Small-24B-Base-2501": (small, "mistral-small"),
        "mistralai/Mistral-Small-24B-Instruct-2501": (small, "mistral-small-chat"),
        "teknium/OpenHermes-2.5-Mistral-7B": (with_end, "mistral-chatml"),
        "openchat/openchat_3.5": (openchat, "openchat"),
    }


# -- Phi -------------------------------------------------------------------------------------------------------------


def _phis() -> Table:
    three = {"vocab_size": 32_064, "bos_token_id": 1, "eos_token_id": 32_000, "pad_token_id": 32_000, "rms_norm_eps": 1e-5,
             "original_max_position_embeddings": 4096, "sliding_window": 262_144, **BF16}  # fmt: skip
    long = {"max_position_embeddings": 131_072}
    mini = (3072, 8192, 32, 32, 32)
    medium = like_llama("phi3", 5120, 17_920, 40, 40, 10, **{**three, "sliding_window": 2047},
                        max_position_embeddings=4096)  # fmt: skip
    four = like_llama("phi3", 3072, 8192, 32, 24, 8, **{**three, "vocab_size": 200_064}, **long,
                      rope_scaling=longrope.PHI_4_MINI, partial_rotary_factor=0.75)  # fmt: skip
    four |= {"tie_word_embeddings": True, **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 199_999)}
    return {
        "microsoft/Phi-3-mini-128k-instruct": (
            like_llama("phi3", *mini, **three, **long, rope_scaling=longrope.PHI_3),
            "phi-3",
        ),
        "microsoft/Phi-3.5-mini-instruct": (
            like_llama("phi3", *mini, **three, **long, rope_scaling=longrope.PHI_3_5),
            "phi-3",
        ),
        "microsoft/Phi-3-medium-4k-instruct": (medium, "phi-3"),
        "microsoft/Phi-4-mini-instruct": (four, "phi-4-mini"),
    }


# -- of Llama's and Qwen's kind --------------------------------------------------------------------------------------


def _llamas() -> Table:
    rope = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    llama = {"rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "rope_scaling": rope, "max_position_embeddings": 131_072,
             "bos_token_id": 128_000, "eos_token_id": 128_001, **BF16}  # fmt: skip
    table: Table = {}
    for prefix in ("Llama-3.1", "Meta-Llama-3.1"):
        largest = like_llama("llama", 16_384, 53_248, 126, 128, 8, **llama, vocab_size=128_256)
        table[f"meta-llama/{prefix}-405B"] = (largest, "llama-3.1")
        instructed = {**largest, "eos_token_id": [128_001, 128_008, 128_009]}
        table[f"meta-llama/{prefix}-405B-Instruct"] = (instructed, "llama-3.1-chat")
    for size, sizes in {"8B": (4096, 14_336, 32, 32, 8), "70B": (8192, 28_672, 80, 64, 8)}.items():
        tulu = like_llama("llama", *sizes, **llama, vocab_size=128_264, pad_token_id=128_256)
        for kind in ("", "-SFT", "-DPO"):
            table[f"allenai/Llama-3.1-Tulu-3-{size}{kind}"] = (tulu, "tulu-3")
    yi = {"rms_norm_eps": 1e-5, "rope_theta": 5_000_000.0, "max_position_embeddings": 4096, "bos_token_id": 1,
          "eos_token_id": 2, **BF16}  # fmt: skip
    nine = (like_llama("llama", 4096, 11_008, 48, 32, 4, **yi, vocab_size=64_000), "yi")
    table |= dict.fromkeys(("01-ai/Yi-9B", "01-ai/Yi-1.5-9B", "01-ai/Yi-1.5-9B-Chat"), nine)
    smol = _decoder("SmolLM3ForCausalLM", "smollm3", 2048, 11_008, 36, 16, 4, **BF16, vocab_size=128_256,
                    max_position_embeddings=65_536, rms_norm_eps=1e-6, rope_theta=5_000_000.0, no_rope_layer_interval=4,
                    bos_token_id=128_000, eos_token_id=128_012, pad_token_id=128_004)  # fmt: skip
    smol["tie_word_embeddings"] = True
    table["HuggingFaceTB/SmolLM3-3B"] = (smol, "smollm-3")
    table["HuggingFaceTB/SmolLM3-3B-Base"] = ({**smol, "eos_token_id": 128_001}, "smollm-3-base")
    return table


def _qwens() -> Table:
    ids = {"bos_token_id": 151_643, "eos_token_id": 151_645, "rms_norm_eps": 1e-6, "vocab_size": 151_936,
           "use_sliding_window": False, **BF16}  # fmt: skip
    sparse = {"decoder_sparse_step": 1, "router_aux_loss_coef": 0.001, "mlp_only_layers": []}
    first = _decoder("Qwen2MoeForCausalLM", "qwen2_moe", 2048, 5632, 24, 16, 16, **ids, **sparse, num_experts=60,
                     num_experts_per_tok=4, moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
                     norm_topk_prob=False, max_position_embeddings=8192, rope_theta=1_000_000.0)  # fmt: skip
    third = _decoder("Qwen3MoeForCausalLM", "qwen3_moe", 4096, 12_288, 94, 64, 4, **ids, **sparse, num_experts=128,
                     num_experts_per_tok=8, moe_intermediate_size=1536, norm_topk_prob=True, head_dim=128,
                     max_position_embeddings=40_960, rope_theta=1_000_000.0)  # fmt: skip
    following = _decoder("Qwen3NextForCausalLM", "qwen3_next", 2048, 5120, 48, 16, 2, **ids, **sparse, num_experts=512,
                         num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512,
                         norm_topk_prob=True, head_dim=256, max_position_embeddings=262_144, rope_theta=10_000_000.0,
                         partial_rotary_factor=0.25, full_attention_interval=4, linear_conv_kernel_dim=4,
                         linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=16,
                         linear_num_value_heads=32)  # fmt: skip
    table: Table = {
        "Qwen/Qwen1.5-MoE-A2.7B": ({**first, "eos_token_id": 151_643}, "qwen-2"),
        "Qwen/Qwen1.5-MoE-A2.7B-Chat": ({**first, "max_position_embeddings": 32_768}, "qwen-2-chat"),
        "Qwen/Qwen3-235B-A22B": (third, "qwen-3"),
    }
    for kind in ("Instruct", "Thinking"):
        table[f"Qwen/Qwen3-Next-80B-A3B-{kind}"] = (following, "qwen-3")
    return table


# -- others ----------------------------------------------------------------------------------------------------------

_MAMBA_SIZES = {"130m": (768, 24), "370m": (1024, 48), "790m": (1536, 48), "1.4b": (2048, 48), "2.8b": (2560, 64)}


def _mixtures() -> Table:
    yarn = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
            "original_max_position_embeddings": 4096}  # fmt: skip
    oss = _decoder("GptOssForCausalLM", "gpt_oss", 2880, 2880, 24, 64, 8, **BF16, vocab_size=201_088, head_dim=64,
                   num_local_experts=32, num_experts_per_tok=4, experts_per_token=4, sliding_window=128, rope_scaling=yarn,
                   rope_theta=150_000.0, rms_norm_eps=1e-5, attention_bias=True, router_aux_loss_coef=0.9,
                   swiglu_limit=7.0, initial_context_length=4096, max_position_embeddings=131_072,
                   layer_types=["sliding_attention", "full_attention"] * 12, eos_token_id=200_002,
                   pad_token_id=199_999)  # fmt: skip
    far = {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
           "original_max_position_embeddings": 4096}  # fmt: skip
    lite = _decoder("DeepseekV2ForCausalLM", "deepseek_v2", 2048, 10_944, 27, 16, 16, **BF16, vocab_size=102_400,
                    first_k_dense_replace=1, kv_lora_rank=512, q_lora_rank=None, moe_intermediate_size=1408,
                    moe_layer_freq=1, n_routed_experts=64, n_shared_experts=2, n_group=1, topk_group=1,
                    topk_method="greedy", scoring_func="softmax", norm_topk_prob=False, num_experts_per_tok=6,
                    qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, routed_scaling_factor=1.0,
                    rms_norm_eps=1e-6, rope_scaling=far, rope_theta=10_000.0, max_position_embeddings=163_840,
                    bos_token_id=100_000, eos_token_id=100_001)  # fmt: skip
    air = _decoder("Glm4MoeForCausalLM", "glm4_moe", 4096, 10_944, 46, 96, 8, **BF16, vocab_size=151_552, head_dim=128,
                   attention_bias=True, first_k_dense_replace=1, moe_intermediate_size=1408, n_routed_experts=128,
                   n_shared_experts=1, num_experts_per_tok=8, norm_topk_prob=True, partial_rotary_factor=0.5,
                   routed_scaling_factor=1.0, use_qk_norm=False, n_group=1, topk_group=1, rms_norm_eps=1e-5,
                   rope_theta=1_000_000.0, max_position_embeddings=131_072, pad_token_id=151_329,
                   eos_token_id=[151_329, 151_336, 151_338])  # fmt: skip
    return {
        # of the quantised one, openai/gpt-oss-20b, only its library knows the tensors
        "lmsys/gpt-oss-20b-bf16": (oss, "gpt-oss"),
        "unsloth/gpt-oss-20b-BF16": (oss, "gpt-oss"),
        "deepseek-ai/DeepSeek-V2-Lite": (lite, "deepseek"),
        "deepseek-ai/DeepSeek-V2-Lite-Chat": (lite, "deepseek-chat"),
        "zai-org/GLM-4.5-Air": (air, "glm-4"),
    }


def _others() -> Table:
    granite = {"rms_norm_eps": 1e-5, "rope_theta": 10_000_000.0, "max_position_embeddings": 131_072,
               "residual_multiplier": 0.22, "embedding_multiplier": 12.0, "bos_token_id": 0, "eos_token_id": 0,
               "pad_token_id": 0, "tie_word_embeddings": True, **BF16}  # fmt: skip
    table: Table = {}
    for size, sizes, multipliers in (
        ("2b", (2048, 8192, 40, 32, 8), {"attention_multiplier": 0.015625, "logits_scaling": 8.0}),
        ("8b", (4096, 12_800, 40, 32, 8), {"attention_multiplier": 0.0078125, "logits_scaling": 16.0}),
    ):
        for kind, rows, family in (("base", 49_152, "granite-3-base"), ("instruct", 49_159, "granite-3")):
            config = _decoder("GraniteForCausalLM", "granite", *sizes, vocab_size=rows) | granite | multipliers
            table[f"ibm-granite/granite-3.3-{size}-{kind}"] = (config, family)
    glm = _decoder("GlmForCausalLM", "glm", 4096, 13_696, 40, 32, 2, **BF16, vocab_size=151_552, head_dim=128,
                   attention_bias=True, rms_norm_eps=1.5625e-07, max_position_embeddings=131_072, pad_token_id=151_329,
                   eos_token_id=[151_329, 151_336, 151_338])  # fmt: skip
    glm_4 = {**glm, "architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "partial_rotary_factor": 0.5,
             "rms_norm_eps": 1e-5}  # fmt: skip
    for owner in ("THUDM", "zai-org"):
        table[f"{owner}/glm-4-9b-hf"] = table[f"{owner}/glm-4-9b-chat-hf"] = (glm, "glm-4")
        table[f"{owner}/GLM-4-9B-0414"] = (glm_4, "glm-4")
    stable = _decoder("StableLmForCausalLM", "stablelm", 2560, 6912, 32, 32, 32, **BF16, vocab_size=50_304,
                      partial_rotary_factor=0.25, layer_norm_eps=1e-5, rope_theta=10_000.0, use_qkv_bias=False,
                      max_position_embeddings=4096, bos_token_id=0, eos_token_id=0)  # fmt: skip
    table["stabilityai/stablelm-3b-4e1t"] = (stable, "pythia")
    neox = {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_act": "gelu", "layer_norm_eps": 1e-5,
            "max_position_embeddings": 2048, "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0,
            **FP16}  # fmt: skip
    pajama = {**neox, **encoder_sizes(2560, 10_240, 32, 32), "vocab_size": 50_432, "rotary_pct": 1.0,
              "use_parallel_residual": False}  # fmt: skip
    for kind in ("Base", "Chat", "Instruct"):
        table[f"togethercomputer/RedPajama-INCITE-{kind}-3B-v1"] = (pajama, "pythia")
    for size, (hidden, heads) in {"14m": (128, 4), "31m": (256, 8)}.items():
        pythia = {**neox, **encoder_sizes(hidden, 4 * hidden, 6, heads), "vocab_size": 50_304, "rotary_pct": 0.25}
        table[f"EleutherAI/pythia-{size}"] = (pythia, "pythia")
    codegen = {
        "architectures": ["CodeGenForCausalLM"], "model_type": "codegen", "vocab_size": 51_200, "n_positions": 2048,
        "n_embd": 1024, "n_layer": 20, "n_head": 16, "rotary_dim": 32, "tie_word_embeddings": False, "bos_token_id": 1,
        "eos_token_id": 50_256, **FP16,
    }  # fmt: skip
    for kind in ("nl", "multi", "mono"):
        table[f"Salesforce/codegen-350M-{kind}"] = (codegen, "codegen")
    for size, (hidden, layers) in _MAMBA_SIZES.items():
        mamba = {
            "architectures": ["MambaForCausalLM"], "model_type": "mamba", "vocab_size": 50_280, "hidden_size": hidden,
            "intermediate_size": 2 * hidden, "num_hidden_layers": layers, "state_size": 16, "conv_kernel": 4, "expand": 2,
            "layer_norm_epsilon": 1e-5, "residual_in_fp32": True, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0,
            "time_step_rank": hidden // 16, **_FP32,
        }  # fmt: skip
        table[f"state-spaces/mamba-{size}-hf"] = (mamba, "pythia")
    return table


MODELS: Table = {
    **_olmos(),
    **_mistrals(),
    **_phis(),
    **_llamas(),
    **_qwens(),
    **_mixtures(),
    **_others(),
}
