"""DeepSpeed's compiled optimizers: the release's own classes, whose compiled kernels torch computes, or nothing does.

A fused kernel reads and writes what it is given and allocates nothing, on the device or on the host. In sim its tensors
merely change; in cpu mode torch computes the same formula beside the meter. Formulas, in DeepSpeed's ``csrc``:
``adam/multi_tensor_adam.cu``, ``lion/multi_tensor_lion.cu``, ``lamb/fused_lamb_cuda_kernel.cu``, ``includes/cpu_adam.h``,
``includes/cpu_adagrad.h`` and ``includes/cpu_lion.h``.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from harness.probe.replacing import Patches


class Kernels:
    """The extensions by the names of their builders."""

    def __init__(self, meter: Any, *, computes: bool) -> None:
        self._meter = meter
        self._computes = computes
        self._loaded = {
            "fused_adam": types.SimpleNamespace(multi_tensor_adam=self._multi_tensor_adam),
            "fused_lion": types.SimpleNamespace(multi_tensor_lion=self._multi_tensor_lion),
            "fused_lamb": types.SimpleNamespace(lamb=self._lamb),
            "cpu_adam": _CpuOptimizer("adam", self._cpu_adam),
            "cpu_adagrad": _CpuOptimizer("adagrad", self._cpu_adagrad),
            "cpu_lion": _CpuOptimizer("lion", self._cpu_lion),
            "utils": types.SimpleNamespace(
                flatten=torch._utils._flatten_dense_tensors, unflatten=torch._utils._unflatten_dense_tensors
            ),
        }

    def named(self, name: str) -> Any:
        """The extension; None where there is no stand-in."""
        return self._loaded.get(name)

    # -- on the device -----------------------------------------------------------------------------------------------

    def _multi_tensor_adam(
        self,
        chunk_size: int,
        noop_flag: torch.Tensor,
        tensor_lists: list[list[torch.Tensor]],
        lr: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        step: int,
        mode: int,
        bias_correction: int,
        weight_decay: float,
        *_: Any,
    ) -> None:
        for gradient, parameter, first, second in zip(*tensor_lists):
            with self._launched((parameter, first, second), gradient) as compute:
                if compute:
                    correction = (1 - beta1**step, 1 - beta2**step) if bias_correction else (1.0, 1.0)
                    _adam(
                        parameter,
                        gradient,
                        first,
                        second,
                        lr,
                        beta1,
                        beta2,
                        epsilon,
                        weight_decay,
                        mode == 1,
                        correction,
                    )

    def _multi_tensor_lion(
        self,
        chunk_size: int,
        noop_flag: torch.Tensor,
        tensor_lists: list[list[torch.Tensor]],
        lr: float,
        beta1: float,
        beta2: float,
        step: int,
        weight_decay: float,
        *_: Any,
    ) -> None:
        for gradient, parameter, momentum in zip(*tensor_lists):
            with self._launched((parameter, momentum), gradient) as compute:
                if compute:
                    _lion(parameter, gradient, momentum, lr, beta1, beta2, weight_decay)

    def _lamb(
        self,
        parameter: torch.Tensor,
        low: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        gradient: torch.Tensor,
        *numbers: Any,
    ) -> Any:
        lr, beta1, beta2, most, least, epsilon, scale, step, inside, bias_correction, decay = numbers
        coefficient = torch.ones((), dtype=parameter.dtype, device=parameter.device)
        with self._launched((parameter, first, second), gradient) as compute:
            if compute:
                g = gradient.float() / scale
                first.mul_(beta1).add_(g, alpha=1 - beta1)
                second.mul_(beta2).addcmul_(g, g, value=1 - beta2)
                root = (second + epsilon).sqrt() if inside == 0 else second.sqrt() + epsilon
                update = first / root + decay * parameter.float()
                if bias_correction:
                    lr = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
                weights, updates = parameter.float().norm(), update.norm()
                if weights > 0 and updates > 0:
                    coefficient.copy_((weights / updates).clamp(least, most))
                parameter.sub_((lr * coefficient.float() * update).to(parameter.dtype))
                if low.numel():
                    low.copy_(parameter)
        return coefficient

    # -- on the host -------------------------------------------------------------------------------------------------

    def _cpu_adam(self, settings: Any, step: int, lr: float, beta1: float, beta2: float, *rest: Any) -> None:
        epsilon, decay, bias_correction, parameter, gradient, first, second = rest[:7]
        with self._launched((parameter, first, second, *rest[7:]), gradient) as compute:
            if compute:
                correction = (1 - beta1**step, 1 - beta2**step) if bias_correction else (1.0, 1.0)
                decoupled = bool(settings[5])
                _adam(parameter, gradient, first, second, lr, beta1, beta2, epsilon, decay, decoupled, correction)
                for copy in rest[7:]:
                    copy.view(-1)[: parameter.numel()].copy_(parameter.view(-1))

    def _cpu_adagrad(
        self, settings: Any, step: int, lr: float, epsilon: float, decay: float, *tensors: torch.Tensor
    ) -> None:
        parameter, gradient, variance = tensors[:3]
        with self._launched((parameter, variance), gradient) as compute:
            if compute:
                g = gradient.float().add(parameter.float(), alpha=decay) if decay else gradient.float()
                variance.addcmul_(g, g)
                parameter.sub_((lr * g / (variance.sqrt() + epsilon)).to(parameter.dtype))

    def _cpu_lion(
        self, settings: Any, step: int, lr: float, beta1: float, beta2: float, decay: float, *rest: Any
    ) -> None:
        parameter, gradient, momentum = rest[:3]
        with self._launched((parameter, momentum), gradient) as compute:
            if compute:
                _lion(parameter, gradient, momentum, lr, beta1, beta2, decay)

    @contextlib.contextmanager
    def _launched(self, written: tuple[torch.Tensor, ...], read: torch.Tensor) -> Iterator[bool]:
        """One kernel. Yields whether to compute it; what is computed is beside the meter, as in a kernel."""
        launches = self._meter.op_launches + 1
        with torch.no_grad():
            if self._computes:
                with _disable_current_modes():
                    yield True
            else:
                for tensor in written:
                    tensor.view(-1)[:1].add_(read.reshape(-1)[:1])  # so that nothing of it is taken for known
                yield False
        self._meter.op_launches = launches


class _CpuOptimizer:
    """An extension with ``create_X``, ``X_update`` and ``destroy_X``."""

    def __init__(self, name: str, update: Callable[..., None]) -> None:
        self._settings: dict[int, tuple[Any, ...]] = {}

        def create(optimizer_id: int, *settings: Any) -> int:
            self._settings[optimizer_id] = settings
            return 0

        def destroy(optimizer_id: int) -> int:
            self._settings.pop(optimizer_id, None)
            return 0

        def updated(optimizer_id: int, *arguments: Any) -> int:
            update(self._settings[optimizer_id], *arguments)
            return 0

        for method, function in (
            (f"create_{name}", create),
            (f"destroy_{name}", destroy),
            (f"{name}_update", updated),
            (f"{name}_update_copy", updated),
        ):
            setattr(self, method, function)


def _adam(
    parameter: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    decoupled: bool,
    correction: tuple[float, float],
) -> None:
    """All in fp32, stored in each tensor's own dtype."""
    g, p = gradient.float(), parameter.float()
    if weight_decay and not decoupled:
        g = g + weight_decay * p
    m = beta1 * first.float() + (1 - beta1) * g
    v = beta2 * second.float() + (1 - beta2) * g * g
    update = (m / correction[0]) / ((v / correction[1]).sqrt() + epsilon)
    if weight_decay and decoupled:
        update = update + weight_decay * p
    parameter.copy_(p - lr * update)
    first.copy_(m)
    second.copy_(v)


def _lion(
    parameter: torch.Tensor,
    gradient: torch.Tensor,
    momentum: torch.Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
) -> None:
    g, p, m = gradient.float(), parameter.float(), momentum.float()
    direction = (beta1 * m + (1 - beta1) * g).sign()
    parameter.copy_(p * (1 - lr * weight_decay) - lr * direction)
    momentum.copy_(beta2 * m + (1 - beta2) * g)


@contextlib.contextmanager
def stubbed(kernels: Kernels) -> Iterator[None]:
    """DeepSpeed's op builders, where it is imported, load these kernels in place of compiling theirs."""
    builder = sys.modules.get("deepspeed.ops.op_builder.builder")
    with Patches() as patches:
        if builder is not None:
            base: Any = builder.OpBuilder
            load = base.load

            def load_stub(self: Any, verbose: bool = True) -> Any:
                kernel = kernels.named(self.name)
                return load(self, verbose) if kernel is None else kernel

            patches.set(base, "load", load_stub)
        yield
