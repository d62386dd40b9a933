"""Llama-2-7B in fp16 under ZeRO-2, with torch's AdamW: full fine-tuning as LLaMA-Factory's example of it."""

import argparse

import deepspeed
import torch
from transformers import AutoModelForCausalLM

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 1,
    "zero_allow_untested_optimizer": True,
    "fp16": {"enabled": True, "initial_scale_power": 16},
    "zero_optimization": {
        "stage": 2, "allgather_partitions": True, "allgather_bucket_size": 500_000_000, "reduce_scatter": True,
        "reduce_bucket_size": 500_000_000, "overlap_comm": False, "contiguous_gradients": True,
    },
}  # fmt: skip


def after_step():
    return torch.cuda.max_memory_allocated()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=512)
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", torch_dtype=torch.float16)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, foreach=False)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    while True:
        ids = torch.randint(0, 32_000, (1, args.tokens), device=engine.device)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        torch.cuda.reset_peak_memory_stats()
        engine.step()
        after_step()


if __name__ == "__main__":
    main()
