"""The later tables of Liger-Kernel's benchmarks: sweeps of the tokens for Llama-3-8B's sizes, and of models, in which the
backward of a loss has a random gradient."""

import benchmark
import kernels
import torch
from kernels import CARD, EVERY, Job, Kernel, mlp, powers
from torch import nn

MODELS = {
    "llama_2_7b": 32000,
    "llama_3_8b": 128256,
    "qwen2.5_7b": 152064,
    "qwen2.5_14b": 152064,
    "qwen2.5_72b": 152064,
    "deepseek_v2_lite": 102400,
    "deepseek_v3": 129280,
}

TILED = ("torch", "liger", "liger_tiled", "deepspeed_tiled")


def cross_entropy(provider, size):
    rows, vocabulary = (2048, MODELS[size]) if size in MODELS else (size, 128256)
    logits = torch.randn(rows, vocabulary, requires_grad=True, device=CARD)
    target = torch.randint(vocabulary, (rows,), device=CARD)
    loss = nn.CrossEntropyLoss()
    return Job(lambda: loss(logits, target), like=torch.empty((), device=CARD), retain=True)


def kl_div(provider, size):
    given, target = kernels.distributions(size, 128256, torch.log_softmax, torch.softmax)
    loss = nn.KLDivLoss(reduction="batchmean")
    return Job(lambda: loss(given, target), like=torch.empty((), device=CARD), retain=True)


kernels.KERNELS = {
    "cross_entropy": Kernel(cross_entropy, powers(10, 13), ("torch",)),
    "cross_entropy_models": Kernel(cross_entropy, tuple(MODELS), ("torch",)),
    "kl_div": Kernel(kl_div, powers(10, 13), ("torch",)),
    "geglu": Kernel(mlp("LigerGEGLUMLP", 1, 4096, 14336, "gelu_pytorch_tanh"), powers(10, 13)),
    "swiglu": Kernel(mlp("LigerSwiGLUMLP", 1, 4096, 14336, "silu"), powers(10, 13), modes=EVERY),
    "tiled_geglu": Kernel(
        mlp("LigerGEGLUMLP", 2, 4096, 14336, "gelu_pytorch_tanh", "LigerTiledGEGLUMLP"), powers(10, 13), TILED, EVERY
    ),
    "tiled_swiglu": Kernel(
        mlp("LigerSwiGLUMLP", 2, 4096, 14336, "silu", "LigerTiledSwiGLUMLP"), powers(10, 13), TILED, EVERY
    ),
}

if __name__ == "__main__":
    benchmark.main()
