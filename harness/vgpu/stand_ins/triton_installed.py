"""An installed Triton without a GPU, which its driver and its compiler need."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from vgpu.replacing import Patches
from vgpu.stand_ins import triton_driver
from vgpu.stand_ins.triton_kernels import launch


@contextlib.contextmanager
def launching() -> Iterator[None]:
    """Launch Triton's kernels as those of its stand-in within the block."""
    jit, tuning = importlib.import_module("triton.runtime.jit"), importlib.import_module("triton.runtime.autotuner")
    with driving(), Patches("Triton's kernels are those of its stand-in") as patches:
        for kernel in (jit.JITFunction, tuning.Autotuner, tuning.Heuristics):
            patches.replace(kernel, "run", _launch_kernel)
        yield


@contextlib.contextmanager
def driving() -> Iterator[None]:
    """Give Triton the stand-in's driver within the block: Triton 3.2 asks its own when a kernel is defined."""
    driver: Any = importlib.import_module("triton.runtime").driver
    with Patches("Triton has the driver of its stand-in") as patches:
        patches.callback(vars(driver).update, dict(vars(driver)))  # its reset_active() would make a driver, from 3.5 on
        if hasattr(type(driver), "set_active"):
            driver.set_active(triton_driver.active)
        else:  # Triton 2, whose driver is made when it is first asked
            driver._obj = triton_driver.active
        yield


def _launch_kernel(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> None:
    function = self
    while hasattr(function, "fn"):
        function = function.fn
    if not warmup:
        launch(function, args, kwargs)
