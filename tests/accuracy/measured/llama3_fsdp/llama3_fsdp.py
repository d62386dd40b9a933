"""Llama-3.1-8B, sharded wholly (FSDP2) in bf16 with fp32 master weights, as torchtitan trains it: of a block, results of
attention and of every other matrix product are kept, and the rest is computed again."""

import collections
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

VOCABULARY, WIDTH, HEADS, SHARED, INNER, LAYERS, LENGTH, BATCH = 128256, 4096, 32, 8, 14336, 32, 8192, 2
SIZE = WIDTH // HEADS

aten = torch.ops.aten
KEPT = {
    aten.mm.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_flash_attention.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
}


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return normed.type_as(x) * self.weight


def rotated(x, turns):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[: x.shape[1]].view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


def repeated(x):
    batch, length, heads, size = x.shape
    times = HEADS // heads
    return x.unsqueeze(3).expand(batch, length, heads, times, size).reshape(batch, length, heads * times, size)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.wk, self.wv = (nn.Linear(WIDTH, SHARED * SIZE, bias=False) for _ in range(2))
        self.wo = nn.Linear(HEADS * SIZE, WIDTH, bias=False)

    def forward(self, x, turns):
        batch, length, _ = x.shape
        query, key, value = (linear(x).view(batch, length, -1, SIZE) for linear in (self.wq, self.wk, self.wv))
        query, key = rotated(query, turns), rotated(key, turns)
        key, value = repeated(key), repeated(value)
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = Norm(), Norm()

    def forward(self, x, turns):
        h = x + self.attention(self.attention_norm(x), turns)
        return h + self.feed_forward(self.ffn_norm(h))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.register_buffer("turns", torch.empty(LENGTH, SIZE // 2, dtype=torch.complex64))
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        h = self.tokens(ids)
        for layer in self.layers:
            h = layer(h, self.turns)
        return self.output(self.norm(h))


def contexts():
    counts = collections.Counter()

    def policy(ctx, operator, *args, **kwargs):
        if operator == aten.mm.default:
            counts[ctx.is_recompute] += 1
            if counts[ctx.is_recompute] % 2 == 0:
                return CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if operator in KEPT else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def after_step():
    return torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with torch.device("meta"):
        model = Model()
    for index, layer in enumerate(model.layers):
        model.layers[index] = checkpoint_wrapper(layer, context_fn=contexts, preserve_rng_state=False)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for index, layer in enumerate(model.layers):
        fully_shard(layer, mp_policy=precision, reshard_after_forward=index < LAYERS - 1)
    fully_shard(model, mp_policy=precision)
    model.to_empty(device="cuda")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    losses = []
    while True:
        ids, labels = (torch.randint(0, VOCABULARY, (BATCH, LENGTH)).to("cuda") for _ in range(2))
        optimizer.zero_grad()
        logits = model(ids)
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))
        del logits
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        losses.append(loss)
        after_step()


if __name__ == "__main__":
    main()
