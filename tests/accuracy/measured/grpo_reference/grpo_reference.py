"""Qwen2.5-1.5B under ZeRO-2 beside a whole copy that is not trained, as GRPO's reference."""

import argparse

import deepspeed
import torch
from transformers import AutoModelForCausalLM

MODEL = "Qwen/Qwen2.5-1.5B"
CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 2,
    "zero_allow_untested_optimizer": True,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 500_000_000, "allgather_bucket_size": 500_000_000},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.parse_args()
    reference = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16)
    reference, _, _, _ = deepspeed.initialize(model=reference, config={**CONFIG, "zero_optimization": {"stage": 0}})
    reference.eval()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    while True:
        ids = torch.randint(0, 151_000, (1, 256), device=engine.device)
        with torch.no_grad():
            reference(input_ids=ids)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
