"""GPT-2 in fp16, loaded on the host and given to DeepSpeed whole: stage 1, stage 3, stage 3 with everything offloaded."""

import argparse

import deepspeed
import torch
from transformers import AutoModelForCausalLM

CONFIG = {
    "train_batch_size": 16,
    "gradient_accumulation_steps": 1,
    "fp16": {"enabled": True, "initial_scale_power": 32},
}
ON_HOST = {"device": "cpu", "pin_memory": True}
ZERO = {
    "1": {"stage": 1, "reduce_bucket_size": 500_000_000, "overlap_comm": False},
    "3": {
        "stage": 3, "reduce_bucket_size": 500_000_000, "allgather_bucket_size": 500_000_000, "overlap_comm": False,
        "contiguous_gradients": True, "sub_group_size": 1e9, "stage3_prefetch_bucket_size": 50_000_000,
        "stage3_param_persistence_threshold": 100_000, "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
    },
    "3-offloaded": {
        "stage": 3, "reduce_bucket_size": 500_000_000, "offload_param": ON_HOST, "offload_optimizer": ON_HOST,
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--zero", choices=sorted(ZERO), required=True)
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    model.train()
    options = {"lr": 3e-5, "weight_decay": 3e-7}
    if args.zero == "3-offloaded":
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        optimizer = DeepSpeedCPUAdam(model.parameters(), **options)
    else:
        optimizer = torch.optim.Adam(model.parameters(), **options)
    config = {**CONFIG, "zero_allow_untested_optimizer": True, "zero_optimization": ZERO[args.zero]}
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    while True:
        ids = torch.randint(0, 50257, (8, 256), device=engine.device)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
