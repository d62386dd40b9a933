"""The kernels of apex that Megatron-LM's containers have, by the sizes of their tensors: layer norm, softmax of masked
scores, which returns a tensor of the scores' size and writes its gradient into the one that it is given, and Adam, which
updates a parameter in one kernel and allocates its two states alone (``apex/optimizers/fused_adam.py``)."""

import math
import sys
import types

import torch


class FusedLayerNormAffineFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias, normalized_shape, eps, memory_efficient=False):
        out, mean, rstd = torch.native_layer_norm(input, list(normalized_shape), weight, bias, eps)
        ctx.save_for_backward(input, weight, bias, mean, rstd)
        ctx.shape = list(normalized_shape)
        return out

    @staticmethod
    def backward(ctx, grad):
        input, weight, bias, mean, rstd = ctx.saved_tensors
        backward = torch.ops.aten.native_layer_norm_backward
        return (*backward(grad, input, ctx.shape, mean, rstd, weight, bias, [True] * 3), None, None, None)


class FastLayerNormFN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta, epsilon, memory_efficient=False):
        return FusedLayerNormAffineFunction.forward(ctx, x, gamma, beta, gamma.shape, epsilon)

    @staticmethod
    def backward(ctx, grad):
        return FusedLayerNormAffineFunction.backward(ctx, grad)[:5]


class FusedAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, **options):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **options})
        self.adam_w_mode = True

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                for name in () if state else ("exp_avg", "exp_avg_sq"):
                    state[name] = torch.zeros_like(parameter, dtype=torch.float32)
                parameter.add_(parameter.grad, alpha=-group["lr"])


def batch_per_block(rows, keys, batch, heads):
    size = 1 << math.ceil(math.log2(keys))
    return 128 // min(size, 32) * (2 if size <= 128 else 1)


def module(name, **names):
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(names)
    sys.modules[name] = made


def install():
    module("apex")
    module("apex.contrib")
    module("apex.contrib.layer_norm")
    module("apex.contrib.layer_norm.layer_norm", FastLayerNormFN=FastLayerNormFN)
    module("apex.normalization")
    module("apex.normalization.fused_layer_norm", FusedLayerNormAffineFunction=FusedLayerNormAffineFunction)
    module("apex.optimizers", FusedAdam=FusedAdam, FusedSGD=torch.optim.SGD)
    for name in ("scaled_upper_triang_masked_softmax_cuda", "scaled_masked_softmax_cuda", "scaled_softmax_cuda"):
        module(
            name,
            forward=lambda scores, *_: torch.empty_like(scores),
            backward=lambda grad, *_: grad,
            get_batch_per_block=batch_per_block,
        )
