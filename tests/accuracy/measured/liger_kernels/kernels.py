"""The kernels: what each is called with, by Liger's module or its plain counterpart."""

from collections.abc import Callable
from dataclasses import dataclass

import plain
import torch
from torch import nn

CARD = "cuda"
BF16 = torch.bfloat16


class Job:
    """A call that is measured: its forward, and its backward with a gradient of the result's shape or of a loss."""

    def __init__(self, forward, like=None, fixed=None, retain=False):
        self.forward, self.like, self.fixed, self.retain = forward, like, fixed, retain

    def given(self):
        return None if self.like is None else torch.randn_like(self.like)

    def backward(self, out, given=None):
        out.backward(self.fixed if self.fixed is not None else given, retain_graph=self.retain)

    def full(self):
        out = self.forward()
        given = self.fixed if self.fixed is not None or self.like is None else torch.randn_like(out)
        out.backward(given, retain_graph=self.retain)


@dataclass(frozen=True)
class Kernel:
    make: Callable
    sizes: tuple
    providers: tuple = ("liger", "torch")
    modes: tuple = ("full",)


def powers(first, last):
    return tuple(2**each for each in range(first, last + 1))


# Losses of logits.


def cross_entropy(provider, size):
    from liger_kernel.transformers.cross_entropy import LigerCrossEntropyLoss

    loss = LigerCrossEntropyLoss() if provider == "liger" else nn.CrossEntropyLoss()
    logits = torch.randn(8 * 2048, size, requires_grad=True, device=CARD)
    target = torch.randint(size, (8 * 2048, 1), device=CARD).squeeze(1)
    return Job(lambda: loss(logits, target))


def distributions(rows, size, of, target_of):
    """Two distributions, the first with the graph of its making."""
    first = of(torch.randn(rows, size, requires_grad=True, device=CARD), dim=-1)
    return first, target_of(torch.randn(rows, size, device=CARD), dim=-1)


def kl_div(provider, size):
    from liger_kernel.transformers.kl_div import LigerKLDIVLoss

    loss = (LigerKLDIVLoss if provider == "liger" else nn.KLDivLoss)(reduction="batchmean")
    given, target = distributions(8 * 2048, size, torch.log_softmax, torch.softmax)
    return Job(lambda: loss(given, target), retain=True)


def jsd(provider, size):
    from liger_kernel.transformers.jsd import LigerJSD

    loss = LigerJSD() if provider == "liger" else plain.JSD()
    given, target = distributions(4 * 2048, size, torch.log_softmax, torch.log_softmax)
    return Job(lambda: loss(given, target), retain=True)


def jsd_by_rows(provider, size):
    from liger_kernel.transformers.jsd import LigerJSD

    loss = LigerJSD() if provider == "liger" else plain.JSDByRows()
    given, target = distributions(size, 128256, torch.log_softmax, torch.log_softmax)
    return Job(lambda: loss(given, target), like=torch.empty((), device=CARD), retain=True)


def tvd(provider, size):
    from liger_kernel.transformers.tvd import LigerTVDLoss

    loss = LigerTVDLoss(reduction="batchmean") if provider == "liger" else plain.tvd
    given, target = distributions(8 * 2048, size, torch.softmax, torch.softmax)
    return Job(lambda: loss(given, target), retain=True)


# Losses of a head's input.


def head(hidden, vocabulary=128256, bias=False):
    return nn.Linear(hidden, vocabulary, bias=bias, dtype=BF16)


class LigerHeadCE(nn.Module):
    def __init__(self, hidden):
        from liger_kernel.transformers.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyLoss

        super().__init__()
        self.lin, self.loss = head(hidden), LigerFusedLinearCrossEntropyLoss(ignore_index=-100, reduction="mean")

    def forward(self, given, target):
        return self.loss(self.lin.weight, given, target)


def fused_linear_cross_entropy(provider, size):
    both = {"torch": plain.HeadCE(head(4096)).to(CARD), "liger": LigerHeadCE(4096).to(CARD)}
    given = torch.randn(size, 4096, requires_grad=True, dtype=BF16, device=CARD)
    target = torch.randint(128256, (size, 1), dtype=torch.long, device=CARD).squeeze(1)
    return Job(lambda: both[provider](given, target))


class LigerHeadJSD(nn.Module):
    def __init__(self, hidden):
        from liger_kernel.transformers.fused_linear_jsd import LigerFusedLinearJSD

        super().__init__()
        self.student, self.teacher, self.loss = head(hidden), head(hidden), LigerFusedLinearJSD(0.5, 1.0)

    def forward(self, student, teacher):
        return self.loss(student, self.student.weight, teacher, self.teacher.weight, None)


def fused_linear_jsd(provider, size):
    both = {"torch": plain.HeadJSD(head(4096), head(4096)).to(CARD), "liger": LigerHeadJSD(4096).to(CARD)}
    for name in ("student", "teacher"):
        weight = torch.rand(128256, 4096, device=CARD, dtype=BF16)
        for each in both.values():
            getattr(each, name).weight.data = weight
    del weight, each
    student = torch.rand(size, 4096, requires_grad=True, dtype=BF16, device=CARD)
    teacher = torch.rand(size, 4096, dtype=BF16, device=CARD)
    return Job(lambda: both[provider](student, teacher))


def preference(kind, length):
    """A loss for pairs of answers, with the head of Liger's module beside it, which is on the card and unused."""

    def make(provider, size):
        used, unused = plain.HeadPairs(head(4096), kind).to(CARD), head(4096).to(CARD)
        given = torch.randn(size, length, 4096, requires_grad=True, dtype=BF16, device=CARD)
        target = torch.randint(128256, (size, length), dtype=torch.long, device=CARD)
        job = Job(lambda: used(given, target))
        job.unused = unused
        return job

    return make


def distillation(kind):
    def make(provider, size):
        used = plain.HeadDistillation(head(2048), head(4096), kind).to(CARD)
        unused = nn.ModuleList([head(2048), head(4096)]).to(CARD)
        same = torch.rand(size, 2048, device=CARD, dtype=BF16)
        student, other = (same.detach().clone().requires_grad_(True) for _ in range(2))
        teacher = torch.rand(size, 4096, device=CARD, dtype=BF16)
        target = torch.randint(0, 128256, (size,), device=CARD, dtype=torch.long)
        job = Job(lambda: used(student, teacher, target))
        job.unused = unused, same, other
        return job

    return make


def kto(provider, size):
    used = plain.HeadKTO(head(1024, bias=True), head(1024, bias=True), ignore=42).to(CARD)
    unused = nn.ModuleList([head(1024, bias=True), head(1024, bias=True)]).to(CARD)
    given = torch.randn(size, 512, 1024, device=CARD, dtype=BF16)
    target = torch.randint(128256, (size, 512), dtype=torch.long, device=CARD)
    chosen = torch.randint(2, (size,), dtype=torch.bool, device=CARD)
    kl = torch.randn(1, device=CARD, dtype=BF16)
    reference = torch.randn(size, 512, 1024, device=CARD, dtype=BF16)
    job = Job(lambda: used(given, reference, target, chosen, kl))
    job.unused = unused
    return job


def grpo(by_sequence):
    def make(provider, size):
        used = plain.HeadGRPO(head(4096), head(4096), by_sequence).to(CARD)
        unused = nn.ModuleList([head(4096), head(4096)]).to(CARD)
        given = torch.randn(size, 1024, 4096, requires_grad=True, dtype=BF16, device=CARD)
        chosen = torch.randint(0, 128256, (size, 1024), dtype=torch.long, device=CARD)
        mask = torch.ones(size, 1024, device=CARD)
        advantages = torch.randn(size, dtype=BF16, device=CARD)
        reference = torch.randn(size, 1024, 4096, dtype=BF16, device=CARD)
        job = Job(lambda: used(given, reference, chosen, mask, advantages)[0])
        job.unused = unused
        return job

    return make


# Layers.


def mlp(module, batch, hidden, inner, activation, tiled=None):
    def make(provider, size):
        from transformers.models.llama.configuration_llama import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaMLP

        config = LlamaConfig(hidden_size=hidden, intermediate_size=inner, hidden_act=activation)
        given = torch.randn(batch, size, hidden, device=CARD, dtype=BF16, requires_grad=True)
        if provider == "liger":
            layer = liger_mlp(module)(config=config)
        elif provider == "liger_tiled":
            layer = liger_mlp(tiled)(config=config, num_shards=4)
        elif provider == "deepspeed_tiled":
            layer = plain.TiledByDeepSpeed(LlamaMLP(config=config), 4)
        else:
            layer = LlamaMLP(config=config)
        layer = layer.to(CARD).to(BF16)
        return Job(lambda: layer(given), like=given, retain=True)

    return make


def liger_mlp(name):
    if name.startswith("LigerTiled"):
        from liger_kernel.transformers import tiled_mlp as found
    elif "GEGLU" in name:
        from liger_kernel.transformers import geglu as found
    else:
        from liger_kernel.transformers import swiglu as found
    return getattr(found, name)


def normed(rows, dtype, both):
    def make(provider, size):
        layers = {name: layer.to(CARD) for name, layer in both(size).items()}
        shape = (*rows[:1], size, *rows[1:])
        given = torch.randn(*shape, dtype=dtype, device=CARD)
        gradient = torch.randn_like(given)
        given.requires_grad_(True)
        return Job(lambda: layers[provider](given), fixed=gradient, retain=True)

    return make


def rms_norms(size):
    from liger_kernel.transformers.rms_norm import LigerRMSNorm

    return {"liger": LigerRMSNorm(hidden_size=size, eps=1e-6), "torch": plain.RMSNorm(size)}


def layer_norms(size):
    from liger_kernel.transformers.layer_norm import LigerLayerNorm

    return {"liger": LigerLayerNorm(hidden_size=size), "torch": nn.LayerNorm(size, eps=1e-6)}


def group_norms(size):
    from liger_kernel.transformers.group_norm import LigerGroupNorm

    return {
        "liger": LigerGroupNorm(num_channels=size, num_groups=size // 4, eps=1e-6),
        "torch": nn.GroupNorm(num_groups=size // 4, num_channels=size, eps=1e-6),
    }


def sparsemaxes(size):
    from liger_kernel.transformers.sparsemax import LigerSparsemax

    return {"liger": LigerSparsemax(dim=-1), "torch": plain.Sparsemax()}


class TwoResults(Job):
    def full(self):
        torch.autograd.backward(self.forward(), self.fixed)


def fused_add_rms_norm(provider, size):
    from liger_kernel.transformers.fused_add_rms_norm import LigerFusedAddRMSNorm
    from liger_kernel.transformers.rms_norm import LigerRMSNorm

    layers = {
        "liger_fused": LigerFusedAddRMSNorm(hidden_size=size, eps=1e-6).to(CARD),
        "torch": plain.AddRMSNorm(size).to(CARD),
        "liger": plain.AddRMSNorm(size, LigerRMSNorm(size, 1e-6, in_place=False)).to(CARD),
    }
    given, rest = (torch.randn(2048, size, device=CARD) for _ in range(2))
    gradients = torch.randn_like(given), torch.randn_like(rest)
    given.requires_grad_(True)
    rest.requires_grad_(True)
    return TwoResults(lambda: layers[provider](given, rest), fixed=gradients)


def neighborhood(batch, hidden, heads, kernel, dilation):
    def make(provider, size):
        from liger_kernel.transformers.fused_neighborhood_attention import LigerFusedNeighborhoodAttention

        chosen = {"hidden_size": hidden, "num_heads": heads, "kernel_size": kernel, "dilation": dilation}
        layers = {
            "liger": LigerFusedNeighborhoodAttention(**chosen, bias=True, dropout=0.0).to(CARD),
            "torch": plain.NeighborhoodAttention(**chosen).to(CARD),
        }
        given = torch.randn(batch, size, hidden, device=CARD)
        gradient = torch.randn_like(given)
        given.requires_grad_(True)
        return Job(lambda: layers[provider](given), fixed=gradient, retain=True)

    return make


EVERY = ("full", "forward", "backward")
NEIGHBORHOOD = powers(6, 12)

KERNELS = {
    "cross_entropy": Kernel(cross_entropy, powers(12, 17)),
    "kl_div": Kernel(kl_div, powers(12, 17)),
    "jsd": Kernel(jsd, powers(12, 17)),
    "jsd_by_rows": Kernel(jsd_by_rows, powers(10, 13), ("torch", "liger")),
    "tvd": Kernel(tvd, powers(12, 17)),
    "fused_linear_cross_entropy": Kernel(fused_linear_cross_entropy, powers(12, 15)),
    "fused_linear_jsd": Kernel(fused_linear_jsd, powers(10, 13)),
    "orpo_1024": Kernel(preference(plain.orpo, 1024), powers(1, 4), ("torch",)),
    "orpo_4096": Kernel(preference(plain.orpo, 4096), powers(1, 4), ("torch",)),
    "cpo": Kernel(preference(plain.cpo, 1024), powers(1, 4), ("torch",)),
    "simpo": Kernel(preference(plain.simpo, 1024), powers(1, 4), ("torch",)),
    "distill_jsd": Kernel(distillation(plain.distilled_jsd), powers(10, 13), ("torch",)),
    "distill_cosine": Kernel(distillation(plain.distilled_cosine), powers(10, 13), ("torch",)),
    "kto": Kernel(kto, powers(1, 5), ("torch",)),
    "grpo_token": Kernel(grpo(False), powers(1, 4), ("torch",)),
    "grpo_sequence": Kernel(grpo(True), powers(1, 4), ("torch",)),
    "geglu": Kernel(mlp("LigerGEGLUMLP", 8, 4096, 11008, "gelu_pytorch_tanh"), powers(10, 13), modes=EVERY),
    "swiglu": Kernel(mlp("LigerSwiGLUMLP", 4, 4096, 11008, "silu"), powers(10, 13)),
    "tiled_geglu": Kernel(
        mlp("LigerGEGLUMLP", 2, 2048, 4096, "gelu_pytorch_tanh", "LigerTiledGEGLUMLP"),
        powers(10, 14),
        ("torch", "liger", "liger_tiled", "deepspeed_tiled"),
        EVERY,
    ),
    "tiled_swiglu": Kernel(
        mlp("LigerSwiGLUMLP", 2, 2048, 4096, "silu", "LigerTiledSwiGLUMLP"),
        powers(10, 14),
        ("torch", "liger", "liger_tiled", "deepspeed_tiled"),
        EVERY,
    ),
    "rms_norm": Kernel(normed((2048,), BF16, rms_norms), powers(10, 15)),
    "layer_norm": Kernel(normed((4096,), torch.float32, layer_norms), powers(10, 14)),
    "group_norm": Kernel(normed((128, 512), torch.float32, group_norms), powers(5, 11)),
    "sparsemax": Kernel(normed((4 * 512,), torch.float32, sparsemaxes), powers(10, 15)),
    "fused_add_rms_norm": Kernel(fused_add_rms_norm, powers(10, 15), ("liger_fused", "torch", "liger")),
    "neighborhood_2x512": Kernel(neighborhood(2, 512, 8, 7, 1), NEIGHBORHOOD),
    "neighborhood_4x768": Kernel(neighborhood(4, 768, 12, 7, 1), NEIGHBORHOOD),
    "neighborhood_2x1024": Kernel(neighborhood(2, 1024, 16, 9, 1), NEIGHBORHOOD),
    "neighborhood_2x512_dilated": Kernel(neighborhood(2, 512, 8, 7, 2), NEIGHBORHOOD),
}
