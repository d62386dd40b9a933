"""Qwen2.5 under ZeRO-3: tied embeddings, biases in attention. Small on CPU; 1.5B on GPUs and in `sim`."""

from scenarios.families import TIED, family

SCENARIO = family(
    version=1,
    summary="Qwen2.5, ZeRO-3, bf16: forward, backward and optimizer step",
    model="qwen2.5-1.5b",
    tiny="qwen2-tiny",
    variants=TIED,
)
