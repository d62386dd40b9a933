"""DeepSpeed's compiled kernels, above all its optimizers': the release's own classes run, and torch computes their kernels
in cpu mode; in sim nothing computes them.

A fused kernel reads and writes its arguments and allocates nothing, on the device or on the host. In sim its tensors merely
change; in cpu mode torch computes the same formula, unmetered. Formulas, in DeepSpeed's ``csrc``:
``adam/multi_tensor_adam.cu``, ``lion/multi_tensor_lion.cu``, ``lamb/fused_lamb_cuda_kernel.cu``, ``includes/cpu_adam.h``,
``includes/cpu_adagrad.h`` and ``includes/cpu_lion.h``.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Container, Iterator
from typing import Any

import torch

from vgpu.device import quantizer
from vgpu.device.launching import kernel
from vgpu.no_stand_in import NoStandInError, StandIn
from vgpu.replacing import Patches

# -- on the device ---------------------------------------------------------------------------------------------------


def _multi_tensor_adam(
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
    *_: object,
) -> None:
    for gradient, parameter, first, second in zip(*tensor_lists):
        with kernel(parameter, first, second) as compute:
            if compute:
                correction = (1 - beta1**step, 1 - beta2**step) if bias_correction else (1.0, 1.0)
                rule = (lr, beta1, beta2, epsilon, weight_decay, mode == 1, correction)
                _adam(parameter, gradient, first, second, rule)


def _multi_tensor_lion(
    chunk_size: int,
    noop_flag: torch.Tensor,
    tensor_lists: list[list[torch.Tensor]],
    lr: float,
    beta1: float,
    beta2: float,
    step: int,
    weight_decay: float,
    *_: object,
) -> None:
    for gradient, parameter, momentum in zip(*tensor_lists):
        with kernel(parameter, momentum) as compute:
            if compute:
                _lion(parameter, gradient, momentum, lr, beta1, beta2, weight_decay)


def _lamb(
    parameter: torch.Tensor,
    low: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    gradient: torch.Tensor,
    *numbers: Any,
) -> object:
    lr, beta1, beta2, most, least, epsilon, scale, step, inside, bias_correction, decay = numbers
    coefficient = torch.ones((), dtype=parameter.dtype, device=parameter.device)
    with kernel(parameter, first, second) as compute:
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


# -- on the host -----------------------------------------------------------------------------------------------------


def _cpu_adam(settings: Any, step: int, lr: float, beta1: float, beta2: float, *rest: Any) -> None:
    epsilon, decay, bias_correction, parameter, gradient, first, second = rest[:7]
    with kernel(parameter, first, second, *rest[7:]) as compute:
        if compute:
            correction = (1 - beta1**step, 1 - beta2**step) if bias_correction else (1.0, 1.0)
            rule = (lr, beta1, beta2, epsilon, decay, bool(settings[5]), correction)
            _adam(parameter, gradient, first, second, rule)
            for copy in rest[7:]:
                copy.view(-1)[: parameter.numel()].copy_(parameter.view(-1))


def _cpu_adagrad(settings: object, step: int, lr: float, epsilon: float, decay: float, *tensors: torch.Tensor) -> None:
    parameter, gradient, variance = tensors[:3]
    with kernel(parameter, variance) as compute:
        if compute:
            g = gradient.float().add(parameter.float(), alpha=decay) if decay else gradient.float()
            variance.addcmul_(g, g)
            parameter.sub_((lr * g / (variance.sqrt() + epsilon)).to(parameter.dtype))


def _cpu_lion(settings: object, step: int, lr: float, beta1: float, beta2: float, decay: float, *rest: object) -> None:
    parameter, gradient, momentum = rest[:3]
    with kernel(parameter, momentum) as compute:
        if compute:
            _lion(parameter, gradient, momentum, lr, beta1, beta2, decay)


class _CpuOptimizer(StandIn):
    """An extension with ``create_X``, ``X_update`` and ``destroy_X``."""

    def __init__(self, name: str, update: Callable[..., None]) -> None:
        super().__init__(f"DeepSpeed's cpu_{name}")
        self._settings: dict[int, tuple[Any, ...]] = {}

        def create(optimizer_id: int, *settings: object) -> int:
            self._settings[optimizer_id] = settings
            return 0

        def destroy(optimizer_id: int) -> int:
            self._settings.pop(optimizer_id, None)
            return 0

        def updated(optimizer_id: int, *arguments: object) -> int:
            update(self._settings[optimizer_id], *arguments)
            return 0

        for method, function in (
            (f"create_{name}", create),
            (f"destroy_{name}", destroy),
            (f"{name}_update", updated),
            (f"{name}_update_copy", updated),
        ):
            setattr(self, method, function)


#: Learning rate, both betas, epsilon, weight decay, whether that is decoupled from the gradient, and the correction of each
#: moment's bias. A plain tuple: the call that makes any other would count as the release's work on the host.
_AdamStep = tuple[float, float, float, float, float, bool, tuple[float, float]]


def _adam(
    parameter: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor, rule: _AdamStep
) -> None:
    """Take one Adam step: compute in fp32, store in each tensor's own dtype."""
    lr, beta1, beta2, epsilon, weight_decay, decoupled, correction = rule
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


def extensions() -> dict[str, object]:
    """Return the stand-ins for compiled extensions, by the names of their builders."""
    return {
        "fused_adam": StandIn("DeepSpeed's fused_adam", multi_tensor_adam=_multi_tensor_adam),
        "fused_lion": StandIn("DeepSpeed's fused_lion", multi_tensor_lion=_multi_tensor_lion),
        "fused_lamb": StandIn("DeepSpeed's fused_lamb", lamb=_lamb),
        "cpu_adam": _CpuOptimizer("adam", _cpu_adam),
        "cpu_adagrad": _CpuOptimizer("adagrad", _cpu_adagrad),
        "cpu_lion": _CpuOptimizer("lion", _cpu_lion),
        "quantizer": quantizer.extension(),
        "utils": StandIn(
            "DeepSpeed's utils",
            flatten=torch._utils._flatten_dense_tensors,
            unflatten=torch._utils._unflatten_dense_tensors,
        ),
    }


@contextlib.contextmanager
def stubbed() -> Iterator[None]:
    """Make DeepSpeed's op builders, if it is imported, load these kernels instead of compiling theirs, within the block."""
    builder = sys.modules.get("deepspeed.ops.op_builder.builder")
    with Patches("DeepSpeed's kernels are not built") as patches:
        if builder is not None:
            base: Any = builder.OpBuilder
            load, known = base.load, extensions()

            def load_stub(self: Any, verbose: bool = True) -> object:
                if (stand_in := known.get(self.name)) is not None:
                    return stand_in
                try:
                    return load(self, verbose)
                except Exception as error:  # builders of each release fail by errors of their own
                    raise NoStandInError(f"DeepSpeed's {self.name} cannot be built here and has no stand-in") from error

            patches.replace(base, "load", load_stub)
            for unbuilt in filter(_is_not_implemented, _subclasses(base)):
                patches.replace(unbuilt, "load", _not_on_cpu)
            _find_builders_of_cuda(patches, known)
        yield


def _subclasses(base: type) -> Iterator[type]:
    derived: list[type] = base.__subclasses__()
    for one in derived:
        yield one
        yield from _subclasses(one)


def _is_not_implemented(builder: type) -> bool:
    return builder.__name__ == "NotImplementedBuilder"


def _not_on_cpu(builder: object, verbose: bool = True) -> object:
    """Raise NoStandInError. The ``load`` of the builder that DeepSpeed's CPU accelerator has for kernels without a CPU
    version."""
    raise NoStandInError("DeepSpeed's kernel has no stand-in")


def _find_builders_of_cuda(patches: Patches, known: Container[str]) -> None:
    """Use CUDA's builders of the known kernels: on its CPU accelerator DeepSpeed offers builders of a few kernels, but keeps
    CUDA's in its modules."""
    package: Any = sys.modules["deepspeed.ops.op_builder"]
    for module in [module for module in vars(package).values() if isinstance(module, types.ModuleType)]:
        for name, builder in list(vars(module).items()):
            found = getattr(package, name, None) if getattr(builder, "NAME", None) in known else None
            if getattr(found, "NAME", "") not in known and found is not None:
                patches.callback(setattr, module, name, builder)  # its own: not put back by the next line
                patches.everywhere(found, builder, name)
