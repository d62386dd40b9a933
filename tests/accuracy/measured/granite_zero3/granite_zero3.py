"""Granite-7B, a Llama-2-7B, in bf16 with ZeRO-3 on sequences of 4096."""

import argparse

import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "zero_optimization": {"stage": 3},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.parse_args()
    deepspeed.init_distributed()
    with deepspeed.zero.Init(config_dict_or_path=CONFIG):
        model = LlamaForCausalLM(LlamaConfig(vocab_size=32008, use_cache=False, attn_implementation="sdpa"))
    model.train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    while True:
        ids = torch.randint(0, 32000, (8, 4096), device=engine.device)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()


if __name__ == "__main__":
    main()
