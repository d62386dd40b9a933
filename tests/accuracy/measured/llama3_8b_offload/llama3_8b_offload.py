"""Llama-3-8B, loaded whole before DeepSpeed gets it: ZeRO-3 with parameters and optimizer on the host."""

import argparse

import deepspeed
import torch
from transformers import AutoModelForCausalLM

HIDDEN = 4096
ON_HOST = {"device": "cpu", "pin_memory": True}
CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 1,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "zero_optimization": {
        "stage": 3, "overlap_comm": True, "contiguous_gradients": True, "sub_group_size": 1e9,
        "offload_param": ON_HOST, "offload_optimizer": ON_HOST, "reduce_bucket_size": HIDDEN * HIDDEN,
        "stage3_prefetch_bucket_size": int(0.9 * HIDDEN * HIDDEN), "stage3_param_persistence_threshold": 10 * HIDDEN,
        "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained("meta-llama/Meta-Llama-3-8B", torch_dtype=torch.bfloat16)
    model.train()
    model.gradient_checkpointing_enable()
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    while True:
        ids = torch.randint(0, 128_000, (1, 512), device=engine.device)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
