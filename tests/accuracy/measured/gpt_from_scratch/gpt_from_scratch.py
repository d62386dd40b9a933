"""GPT-2's smallest size on one card: attention, norms and activation written out or PyTorch's, in fp32 or bf16."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, DROPPED, BATCH = 50257, 1024, 768, 12, 12, 0.1, 8


class WrittenNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.shift = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        normed = (x - mean) / torch.sqrt(variance + 1e-5)
        return self.scale * normed + self.shift


class WrittenGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / math.pi)) * (x + 0.044715 * torch.pow(x, 3))))


class WrittenAttention(nn.Module):
    def __init__(self, *, mask_on_the_fly: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPPED)
        self.mask_on_the_fly = mask_on_the_fly
        if not mask_on_the_fly:
            self.register_buffer("mask", torch.triu(torch.ones(LENGTH, LENGTH), diagonal=1))

    def forward(self, x):
        batch, length, _ = x.shape
        keys = self.key(x).view(batch, length, HEADS, -1)
        queries = self.query(x).view(batch, length, HEADS, -1)
        values = self.value(x).view(batch, length, HEADS, -1)
        keys, queries, values = keys.transpose(1, 2), queries.transpose(1, 2), values.transpose(1, 2)
        scores = queries @ keys.transpose(2, 3)
        if self.mask_on_the_fly:
            mask = torch.triu(torch.ones(length, length, device=x.device), diagonal=1).bool()
        else:
            mask = self.mask.bool()[:length, :length]
        scores.masked_fill_(mask, -torch.inf)
        weights = torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1)
        weights = self.dropout(weights)
        attended = (weights @ values).transpose(1, 2)
        return self.out(attended.reshape(batch, length, WIDTH))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        queries, keys, values = qkv
        attended = functional.scaled_dot_product_attention(
            queries, keys, values, dropout_p=DROPPED if self.training else 0.0, is_causal=True
        )
        return self.out(attended.transpose(1, 2).contiguous().view(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        norm = nn.LayerNorm if args.classes else lambda _: WrittenNorm()
        self.attention = Attention() if args.flash else WrittenAttention(mask_on_the_fly=args.mask_on_the_fly)
        gelu = nn.GELU(approximate="tanh") if args.classes else WrittenGelu()
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), gelu, nn.Linear(4 * WIDTH, WIDTH))
        self.first_norm, self.second_norm = norm(WIDTH), norm(WIDTH)
        self.dropout = nn.Dropout(DROPPED)

    def forward(self, x):
        shortcut = x
        x = self.first_norm(x)
        x = self.attention(x)
        x = self.dropout(x)
        x = x + shortcut
        shortcut = x
        x = self.second_norm(x)
        x = self.feed_forward(x)
        x = self.dropout(x)
        return x + shortcut


class Model(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.dropout = nn.Dropout(DROPPED)
        self.blocks = nn.Sequential(*(Block(args) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH) if args.classes else WrittenNorm()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        tokens = self.tokens(ids)
        positions = self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = tokens + positions
        x = self.dropout(x)
        x = self.blocks(x)
        x = self.norm(x)
        return self.head(x)


def after_epoch():
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def loss_of(model, device):
    """Of one batch, which comes from the host."""
    ids, labels = (torch.randint(0, VOCABULARY, (BATCH, LENGTH)).to(device) for _ in range(2))
    logits = model(ids)
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def evaluate(model, device) -> None:
    model.eval()
    with torch.no_grad():
        for _ in range(2):
            loss_of(model, device).item()
    model.train()


def generate(model, device) -> None:
    model.eval()
    ids = torch.randint(0, VOCABULARY, (1, 4)).to(device)
    with torch.no_grad():
        for _ in range(50):
            with torch.no_grad():
                logits = model(ids[:, -LENGTH:])
            following = torch.argmax(logits[:, -1, :], dim=-1, keepdim=True)
            ids = torch.cat((ids, following), dim=1)
    model.train()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mask-on-the-fly", action="store_true")
    parser.add_argument("--fused", action="store_true", help="The optimizer.")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--classes", action="store_true", help="PyTorch's norm and activation.")
    parser.add_argument("--flash", action="store_true", help="PyTorch's attention.")
    args = parser.parse_args()
    device = torch.device("cuda")
    model = Model(args)
    model.to(device)
    if args.bf16:
        model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=args.fused or None)
    while True:
        model.train()
        for step in range(2):
            optimizer.zero_grad()
            loss = loss_of(model, device)
            loss.backward()
            optimizer.step()
            if step == 0:
                evaluate(model, device)
        generate(model, device)
        after_epoch()


if __name__ == "__main__":
    main()
