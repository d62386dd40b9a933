"""Triton in a simulation: a kernel of the program's own is launched and writes its outputs, but does not run.

A Triton kernel allocates nothing: its outputs are tensors that the program made before, so memory is exact. Its results are
unknown, and so are its FLOPs, which are in no figure. Triton's tuning on a card, with a buffer of its own, is not modelled
either: the first configuration is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from vgpu.device.launching import unknown_kernel
from vgpu.meters.operators import tensors_in
from vgpu.stand_ins import triton_stores

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "JITFunction",
    "KernelInterface",
    "autotune",
    "cdiv",
    "heuristics",
    "jit",
    "next_power_of_2",
    "set_allocator",
]


def launch(function: FunctionType, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Launch the kernel that is written as a Python function. Arguments that it lacks are options of the launch."""
    into = triton_stores.written(function)
    given = {**dict(zip(inspect.signature(function).parameters, args)), **kwargs}
    unknown_kernel(*[tensor for name, value in given.items() if name in into for tensor in _tensors(value)])


def _tensors(value: object) -> Iterable[torch.Tensor]:
    return tensors_in(getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value)


class KernelInterface:
    """An object that ``kernel[grid](...)`` launches; ``fn`` is the function or kernel inside."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", "kernel")
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__module__ = getattr(fn, "__module__", __name__)

    def __getitem__(self, grid: object) -> Callable[..., None]:
        def launched(*args: object, **kwargs: object) -> None:
            self.run(*args, grid=grid, warmup=False, **kwargs)

        return launched

    def run(self, *args: object, grid: object = None, warmup: bool = False, **kwargs: object) -> None:
        """Launch the kernel; with ``warmup`` only compile, which launches nothing."""
        fn: Any = self
        while isinstance(fn, KernelInterface):
            fn = fn.fn
        if not warmup:
            launch(fn, args, kwargs)

    def warmup(self, *args: object, grid: object = None, **kwargs: object) -> None:
        self.run(*args, grid=grid, warmup=True, **kwargs)

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")


class JITFunction(KernelInterface):
    """A function that Triton would compile."""

    def __init__(self, fn: FunctionType) -> None:
        super().__init__(fn)
        self.signature = inspect.signature(fn)
        self.arg_names = list(self.signature.parameters)

    @property
    def src(self) -> str:
        return inspect.getsource(self.fn)


class Autotuner(KernelInterface):
    """A kernel with several configurations, of which the first is taken. Attributes are those that libraries' own
    autotuners, made from this one, read."""

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str] = (),
        configs: Sequence[Config] = (),
        key: Sequence[str] | None = None,
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Any = None,
        post_hook: Any = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        *_: Any,
        **__: Any,
    ) -> None:
        super().__init__(fn)
        self.arg_names, self.keys = list(arg_names), list(key or ())
        self.configs = list(configs) or [Config({})]
        self.best_config = self.configs[0]
        self.cache: dict[Any, Config] = {}
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.pre_hook, self.post_hook = pre_hook, post_hook
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.early_config_prune = (prune_configs_by or {}).get("early_config_prune")


class Heuristics(KernelInterface):
    """A kernel some of whose constants are computed from its arguments."""

    @property
    def arg_names(self) -> list[str]:
        return list(self.fn.arg_names)


class Config:
    """Constants of a kernel, and options of its launch."""

    def __init__(self, kwargs: Mapping[str, Any], num_warps: int = 4, num_stages: int = 3, **options: Any) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages = num_warps, num_stages
        self.num_ctas = options.get("num_ctas", 1)
        self.maxnreg = options.get("maxnreg")
        self.pre_hook = options.get("pre_hook")

    def all_kwargs(self) -> dict[str, object]:
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}


def jit(fn: Any = None, **options: object) -> object:
    """Return the kernel of a function: ``@triton.jit``, with options or without."""
    return (lambda fn: jit(fn)) if fn is None else JITFunction(getattr(fn, "fn", fn))


def autotune(configs: Sequence[Config] = (), key: Any = None, **options: object) -> Callable[[Any], Autotuner]:
    """Return ``@triton.autotune``'s decorator."""
    return lambda fn: Autotuner(fn, getattr(fn, "arg_names", ()), configs, key)


def heuristics(values: Mapping[str, object]) -> Callable[[Any], Heuristics]:
    """Return ``@triton.heuristics``'s decorator; the constants are not computed, as no kernel runs."""
    return lambda fn: Heuristics(fn)


def cdiv(x: int, y: int) -> int:
    """Return x / y, rounded up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def set_allocator(allocator: object) -> None:
    """Do nothing: kernels' own scratch memory, which the allocator provides, is not modelled."""
