"""Llama under ZeRO-3: forward, backward, step. Small on CPU; Llama-3-8B on GPUs and in `sim`."""

from scenarios.families import COVERAGE, family

SCENARIO = family(
    version=1,
    summary="Llama, ZeRO-3, bf16: forward, backward and optimizer step",
    model="llama-3-8b",
    tiny="llama-tiny",
    variants=COVERAGE,
)
