"""A RoBERTa of 52 billion parameters in bf16 with ZeRO-3: each layer checkpointed, 16 sequences of 512 per GPU."""

import argparse

import deepspeed
import torch
from transformers import RobertaConfig, RobertaForMaskedLM
from transformers.modeling_utils import no_init_weights

BATCH, LENGTH, VOCABULARY = 16, 512, 53000
CONFIG = {
    "train_micro_batch_size_per_gpu": BATCH,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 3, "contiguous_gradients": True, "overlap_comm": True},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.parse_args()
    deepspeed.init_distributed()
    config = RobertaConfig(
        vocab_size=VOCABULARY, hidden_size=8192, num_hidden_layers=64, num_attention_heads=64, intermediate_size=32768,
        max_position_embeddings=LENGTH + 2, attn_implementation="eager",
    )  # fmt: skip
    with deepspeed.zero.Init(config_dict_or_path=CONFIG), no_init_weights():
        model = RobertaForMaskedLM(config)
    model.train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    while True:
        ids = torch.randint(10, VOCABULARY, (BATCH, LENGTH), device=engine.device)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()


if __name__ == "__main__":
    main()
