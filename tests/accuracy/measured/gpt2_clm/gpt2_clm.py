"""GPT-2 in fp16 with ZeRO-1 as transformers' example for causal language models trains it: eager attention, dropout."""

import argparse

import deepspeed
import torch
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH = 1024
#: width, layers, heads
SIZES = {"gpt2": (768, 12, 12), "medium": (1024, 24, 16), "large": (1280, 36, 20), "xl": (1600, 48, 25)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--size", choices=sorted(SIZES), required=True)
    parser.add_argument("--batch", type=int, required=True)
    args = parser.parse_args()
    width, layers, heads = SIZES[args.size]
    config = GPT2Config(n_embd=width, n_layer=layers, n_head=heads, attn_implementation="eager", use_cache=False)
    model = GPT2LMHeadModel(config)
    model.train()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.0}, {"params": others, "weight_decay": 0.0}]
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(groups, lr=2e-5),
        config={
            "train_micro_batch_size_per_gpu": args.batch,
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": 1},
            "fp16": {"enabled": True},
            "gradient_clipping": 1.0,
        },
    )
    while True:
        ids = torch.randint(0, config.vocab_size, (args.batch, LENGTH), device=engine.device)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()


if __name__ == "__main__":
    main()
