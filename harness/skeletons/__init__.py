"""Checkpoints without weights: configuration, tokenizer and safetensors of the right names, shapes and sizes."""
