"""LoRA on every linear layer of Qwen2.5-0.5B, without ZeRO: DeepSpeed's bf16 optimizer."""

import argparse

import deepspeed
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "zero_allow_untested_optimizer": True,
    "bf16": {"enabled": True},
    "zero_optimization": {
        "stage": 0, "allgather_partitions": True, "allgather_bucket_size": 500_000_000, "overlap_comm": True,
        "reduce_scatter": True, "reduce_bucket_size": 500_000_000, "contiguous_gradients": True,
    },
}  # fmt: skip
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct", torch_dtype=torch.bfloat16)
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=LINEAR, task_type="CAUSAL_LM"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.data = parameter.data.to(torch.float32)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(trained, lr=1e-4), config=CONFIG)
    while True:
        ids = torch.randint(0, 151_000, (1, 1024), device=engine.device)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
