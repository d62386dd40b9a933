"""Shapes of the models, as transformers' configuration classes name them.

The published shapes are those of the models' own ``config.json``. The tiny ones keep what matters for a framework's
code paths (grouped-query attention, tied or untied embeddings, several identical layers), and train in milliseconds.
"""

_FIELDS = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "tie_word_embeddings",
    "max_position_embeddings",
    "rope_theta",
)

_TABLE = {
    "llama-tiny": ("llama", 64, 176, 4, 4, 2, 512, False, 2048, 10_000.0),
    "llama-many": ("llama", 16, 32, 16, 2, 1, 128, False, 2048, 10_000.0),  # 147 parameters, most of 16 elements
    "qwen2-tiny": ("qwen2", 64, 160, 4, 4, 2, 512, True, 2048, 10_000.0),
    "llama-3-8b": ("llama", 4096, 14336, 32, 32, 8, 128_256, False, 8192, 500_000.0),
    "llama-3-70b": ("llama", 8192, 28672, 80, 64, 8, 128_256, False, 8192, 500_000.0),
    "llama-3.1-405b": ("llama", 16384, 53248, 126, 128, 8, 128_256, False, 131_072, 500_000.0),  # rope_scaling aside
    "qwen2.5-0.5b": ("qwen2", 896, 4864, 24, 14, 2, 151_936, True, 32768, 1_000_000.0),
    "qwen2.5-1.5b": ("qwen2", 1536, 8960, 28, 12, 2, 151_936, True, 32768, 1_000_000.0),
    "qwen2.5-7b": ("qwen2", 3584, 18944, 28, 28, 4, 152_064, False, 32768, 1_000_000.0),
}

SHAPES = {name: dict(zip(_FIELDS, row, strict=True)) for name, row in _TABLE.items()}
SHAPES["mixtral-tiny"] = {
    **SHAPES["llama-tiny"], "model_type": "mixtral", "intermediate_size": 64, "num_local_experts": 4,
    "num_experts_per_tok": 2,
}  # fmt: skip
