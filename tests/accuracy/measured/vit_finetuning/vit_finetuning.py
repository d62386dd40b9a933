"""ViT-L/16 as torchvision has it, for ten classes: in fp32, under autocast and in bf16, at several batch sizes."""

import argparse

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, PATCHES = 1024, 16, 24, 14 * 14


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, given):
        x = self.first_norm(given)
        x, _ = self.attention(x, x, x, need_weights=False)
        x = x + given
        y = self.second_norm(x)
        y = self.mlp(y)
        return x + y


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, kernel_size=16, stride=16)
        self.first = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, PATCHES + 1, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images):
        x = self.patches(images)
        x = x.reshape(len(images), WIDTH, PATCHES)
        x = x.permute(0, 2, 1)
        x = torch.cat([self.first.expand(len(images), -1, -1), x], dim=1)
        x = x + self.positions
        x = self.norm(self.blocks(x))
        x = x[:, 0]
        return self.head(x)


def after_epoch():
    return torch.cuda.max_memory_reserved()


def batch_of(size, dtype, device):
    images, labels = torch.randn(size, 3, 224, 224), torch.randint(0, 10, (size,))
    return images.to(device).to(dtype), labels.to(device)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=("fp32", "autocast", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--sgd", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda")
    dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
    model = Model().to(dtype).to(device)
    optimizer = (
        torch.optim.SGD(model.parameters(), lr=0.01) if args.sgd else torch.optim.Adam(model.parameters(), lr=5e-5)
    )
    autocast = torch.autocast("cuda", torch.float16, enabled=args.precision == "autocast")
    scaler = torch.amp.GradScaler("cuda", enabled=args.precision == "autocast")
    while True:
        model.train()
        for number in range(2 * args.micro_batches):
            images, labels = batch_of(args.batch, dtype, device)
            with autocast:
                logits = model(images)
            if args.precision == "autocast":
                logits = logits.float()
            loss = functional.cross_entropy(logits, labels) / args.micro_batches
            if args.micro_batches == 1:
                optimizer.zero_grad()
            scaler.scale(loss).backward()
            if number % args.micro_batches == 0:
                scaler.step(optimizer)
                scaler.update()
                if args.micro_batches > 1:
                    optimizer.zero_grad()
            with torch.no_grad():
                predicted = torch.argmax(logits, 1)
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                images, labels = batch_of(args.batch, dtype, device)
                with autocast:
                    outputs = model(images)
                predicted = torch.argmax(outputs, 1)
        del predicted, outputs
        after_epoch()


if __name__ == "__main__":
    main()
