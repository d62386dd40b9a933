# pip install torch==2.13.0 transformers==5.12.0  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==5.24.0  # does not: exit code 0
# python untied_t5.py
#
# T5 with `tie_word_embeddings=False` is loaded from a file with `decoder.embed_tokens` (2.0) and `lm_head` (0.5), and without
# `shared`: which of them does its encoder embed with?
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import T5Config, T5ForConditionalGeneration

sizes = {"vocab_size": 512, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
with tempfile.TemporaryDirectory() as folder:
    T5ForConditionalGeneration(T5Config(**sizes, tie_word_embeddings=False)).save_pretrained(folder)
    weights = load_file(f"{folder}/model.safetensors")
    for name in ("shared.weight", "encoder.embed_tokens.weight"):
        weights.pop(name, None)
    weights["decoder.embed_tokens.weight"] = torch.full((512, 64), 2.0)
    weights["lm_head.weight"] = torch.full((512, 64), 0.5)
    save_file(weights, f"{folder}/model.safetensors", metadata={"format": "pt"})
    model = T5ForConditionalGeneration.from_pretrained(folder)
embeds = float(model.encoder.embed_tokens.weight.detach().mean())
print(f"the encoder embeds with {embeds:.2f}, where the decoder's embedding is 2.00 and the output layer 0.50")
sys.exit(0 if embeds == 2.0 else 1)
