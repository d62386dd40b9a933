"""Qwen1.5-0.5B or Llama-3-8B in fp16 under ZeRO as transformers' Trainer trains them: loaded in fp32 on the CPU."""

import argparse

import deepspeed
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

QWEN = Qwen2Config(
    hidden_size=1024,
    intermediate_size=2816,
    num_hidden_layers=24,
    num_attention_heads=16,
    num_key_value_heads=16,
    vocab_size=151936,
    tie_word_embeddings=True,
)
LLAMA = LlamaConfig(
    hidden_size=4096,
    intermediate_size=14336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    vocab_size=128256,
)
ZERO = {
    "3": {"stage": 3},
    "2-offloaded": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}},
}


def peak() -> tuple[int, int]:
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--model", choices=["qwen", "llama"], required=True)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--zero", choices=sorted(ZERO), default="3")
    parser.add_argument("--checkpointing", action="store_true")
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_config({"qwen": QWEN, "llama": LLAMA}[args.model])
    model.config.use_cache = False
    if args.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": True})
    model.train()
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": args.batch,
            "zero_optimization": ZERO[args.zero],
            "fp16": {"enabled": True},
            "optimizer": {"type": "AdamW", "params": {"lr": 8e-5, "weight_decay": 0.01}},
        },
    )
    while True:
        ids = torch.randint(0, model.config.vocab_size, (args.batch, args.length), device=engine.device)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()
        peak()


if __name__ == "__main__":
    main()
