"""LoRA of the queries and values of Llama-2-7B in bf16 on one card, as lit-gpt trained it in October 2023."""

import argparse

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, INNER, LAYERS = 32000, 4096, 32, 11008, 32
SIZE, RANK, DROPPED, CHUNK = WIDTH // HEADS, 8, 0.05, 128


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        wide = x.float()
        mean = torch.mean(wide * wide, dim=-1, keepdim=True)
        normed = wide * torch.rsqrt(mean + 1e-5)
        return (self.weight * normed).to(x.dtype)


class Projection(nn.Module):
    """Queries, keys and values of one matrix; adapters of the first and last."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.dropout = nn.Dropout(DROPPED)
        self.lora_a = nn.Parameter(torch.zeros(2 * RANK, WIDTH))
        self.lora_b = nn.Parameter(torch.zeros(2 * WIDTH, RANK))
        self.at = [*range(WIDTH), *range(2 * WIDTH, 3 * WIDTH)]

    def padded(self, x):
        x = x.transpose(0, 1)
        result = x.new_zeros((*x.shape[:-1], 3 * WIDTH)).view(-1, 3 * WIDTH)
        result = result.index_copy(1, torch.tensor(self.at, device=x.device), x.reshape(-1, 2 * WIDTH))
        return result.view((*x.shape[:-1], 3 * WIDTH)).transpose(0, 1)

    def forward(self, x):
        projected = self.linear(x)
        low = functional.linear(self.dropout(x), self.lora_a)
        high = functional.conv1d(low.transpose(-2, -1), self.lora_b.unsqueeze(-1), groups=2).transpose(-2, -1)
        return projected + self.padded(high) * 2.0


def rotated(x, cos, sin):
    first, second = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    turned = torch.cat((-second, first), dim=-1)
    return ((x * cos) + (turned * sin)).type_as(x)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = Norm(), Norm()
        self.attn, self.proj = Projection(), nn.Linear(WIDTH, WIDTH, bias=False)
        self.fc_1, self.fc_2 = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.out = nn.Linear(INNER, WIDTH, bias=False)

    def attend(self, x, cos, sin):
        batch, length, _ = x.shape
        qkv = self.attn(x).view(batch, length, HEADS, 3, SIZE).permute(0, 2, 3, 1, 4)
        query, key, value = (part.reshape(batch, -1, length, SIZE) for part in qkv.split((1, 1, 1), dim=2))
        query_turned, key_turned = rotated(query, cos, sin), rotated(key, cos, sin)
        query = torch.cat((query_turned, query[..., SIZE:]), dim=-1)
        key = torch.cat((key_turned, key[..., SIZE:]), dim=-1)
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.proj(out.transpose(1, 2).reshape(batch, length, WIDTH))

    def feed(self, x):
        first, second = self.fc_1(x), self.fc_2(x)
        x = functional.silu(first) * second
        return self.out(x)

    def forward(self, x, cos, sin):
        h = self.attend(self.norm_1(x), cos, sin)
        x = h + x
        return self.feed(self.norm_2(x)) + x


class Model(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        for name in ("cos", "sin"):
            self.register_buffer(name, torch.zeros(length, SIZE, dtype=torch.float32), persistent=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.cos[: ids.shape[1]], self.sin[: ids.shape[1]])
        x = self.norm(x)
        return [self.head(part).float() for part in x.split(CHUNK, dim=1)]


def after_step():
    return torch.cuda.max_memory_allocated()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=1304)
    parser.add_argument("--micro-batch", type=int, required=True)
    parser.add_argument("--micro-batches", type=int, default=2)
    args = parser.parse_args()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Model(args.length)
    torch.set_default_dtype(before)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "lora" in name
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4, weight_decay=0.01)
    while True:
        for _ in range(args.micro_batches):
            ids, labels = (torch.randint(0, VOCABULARY, (args.micro_batch, args.length)).to("cuda") for _ in range(2))
            logits = model(ids)
            logits[-1] = logits[-1][..., :-1, :]
            chunks = zip(logits, labels[..., 1:].split(CHUNK, dim=1), strict=True)
            losses = [
                functional.cross_entropy(part.reshape(-1, VOCABULARY), words.reshape(-1), reduction="none")
                for part, words in chunks
            ]
            loss = torch.cat(losses).mean()
            (loss / args.micro_batches).backward()
        optimizer.step()
        optimizer.zero_grad()
        after_step()


if __name__ == "__main__":
    main()
