"""A transformer of torch's own layers under ZeRO-3, with fp32 or bf16 optimizer states."""

import argparse

import deepspeed
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

POSITIONS = 512


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.first_norm = nn.LayerNorm(hidden)
        self.feed_forward = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))
        self.second_norm = nn.LayerNorm(hidden)

    def forward(self, x):
        attended, _ = self.attention(x, x, x)
        x = self.first_norm(x + attended)
        return self.second_norm(x + self.feed_forward(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, hidden: int, layers: int, heads: int, checkpointing: bool) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(POSITIONS, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0).expand(ids.shape[0], -1)
        x = self.tokens(ids) + self.positions(places)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointing else layer(x)
        return self.head(x)


def after_step():
    return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--vocabulary", type=int, default=50000)
    parser.add_argument("--bf16-states", action="store_true")
    parser.add_argument("--checkpointing", action="store_true")
    args = parser.parse_args()
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 3, "overlap_comm": True, "contiguous_gradients": True, "reduce_bucket_size": 50_000_000,
            "stage3_param_persistence_threshold": 0,
        },
    }  # fmt: skip
    if args.bf16_states:
        config["bf16"] |= {"bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}
        config["torch_autocast"] = {"enabled": True, "dtype": "torch.bfloat16"}
    deepspeed.init_distributed()
    model = Transformer(args.vocabulary, args.hidden, args.layers, args.heads, args.checkpointing)
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    loss_of = nn.CrossEntropyLoss()
    for _ in range(20):
        ids = torch.randint(0, args.vocabulary, (args.batch, POSITIONS), device=engine.device)
        labels = torch.randint(0, args.vocabulary, (args.batch, POSITIONS), device=engine.device)
        if args.bf16_states:
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                logits = engine(ids)
                loss = loss_of(logits.view(-1, args.vocabulary), labels.view(-1))
        else:
            logits = engine(ids)
            loss = loss_of(logits.view(-1, args.vocabulary), labels.view(-1))
        engine.backward(loss)
        engine.step()
        after_step()


if __name__ == "__main__":
    main()
