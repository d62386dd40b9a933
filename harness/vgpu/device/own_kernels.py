"""CUDA code that a program compiles itself: this machine can neither compile nor run it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from vgpu.no_stand_in import NoStandInError
from vgpu.replacing import Patches

_CUDA_SOURCES = (".cu", ".cuh")


def own_kernels_refused(patches: Patches) -> None:
    """Make ``torch.utils.cpp_extension.load``, ``load_inline`` and ``torch.cuda._compile_kernel`` raise NoStandInError for
    CUDA code. Pure C++ extensions are compiled as usual."""

    def _compile_kernel(kernel_source: str, kernel_name: str, *_: object, **__: object) -> object:
        raise _refusal(kernel_name)

    patches.replace(torch.cuda, "_compile_kernel", _compile_kernel, since="torch 2.13")
    try:
        from torch.utils import cpp_extension
    except ImportError:  # it needs setuptools
        return
    for original, is_cuda in ((cpp_extension.load, _loads_cuda), (cpp_extension.load_inline, _has_cuda)):
        patches.everywhere(original, _unless(is_cuda, original), original.__name__)


def _unless(is_cuda: Callable[..., bool], original: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(original)
    def load(name: str, *args: object, **options: object) -> Any:
        if options.get("with_cuda") or is_cuda(*args, **options):
            raise _refusal(name)
        return original(name, *args, **options)

    return load


def _loads_cuda(sources: Any = (), *_: object, **__: object) -> bool:
    return any(str(file).endswith(_CUDA_SOURCES) for file in ([sources] if isinstance(sources, str) else sources))


def _has_cuda(cpp_sources: object = None, cuda_sources: object = None, *_: object, **__: object) -> bool:
    return bool(cuda_sources)


def _refusal(name: str) -> NoStandInError:
    return NoStandInError(f"{name}, which the program compiles from CUDA code, has no stand-in")
