"""``pynvml`` of the virtual card: the few queries that frameworks make. The functions of an installed ``pynvml`` are
replaced; without one, a module stands in for it."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from typing import Any

from vgpu.device.books import Books
from vgpu.device.card import VirtualCard
from vgpu.no_stand_in import lacking
from vgpu.replacing import Patches


@contextlib.contextmanager
def answered(card: VirtualCard, books: Books, ordinals: Any) -> Iterator[None]:
    """Answer NVML queries for this card within the block."""

    def nothing(*_: object) -> None:
        """Do nothing: there is no driver to start."""

    def memory(handle: object, version: object = None) -> Any:
        used = books.reserved()
        return types.SimpleNamespace(total=card.memory_bytes, used=used, free=card.memory_bytes - used, reserved=0)

    answers = {
        "nvmlInit": nothing,
        "nvmlShutdown": nothing,
        "nvmlDeviceGetCount": lambda: ordinals.count,
        "nvmlDeviceGetHandleByIndex": lambda index: int(index),
        "nvmlDeviceGetHandleByUUID": lambda uuid: 0,
        "nvmlDeviceGetHandleByPciBusId": lambda bus: 0,
        "nvmlDeviceGetIndex": lambda handle: handle,
        "nvmlDeviceGetName": lambda handle: card.name,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-00000000-0000-0000-0000-{handle:012d}",
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetCudaComputeCapability": lambda handle: card.compute_capability,
        "nvmlSystemGetDriverVersion": lambda: "570.124.06",
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
    }
    with Patches("the card answers") as patches:
        if importlib.util.find_spec("pynvml") is None:
            module: Any = types.ModuleType("pynvml")
            module.NVMLError = type("NVMLError", (Exception,), {})
            vars(module).update(answers, __getattr__=lacking("pynvml"))
            sys.modules["pynvml"] = module
            try:
                yield
            finally:
                sys.modules.pop("pynvml", None)
            return
        import pynvml

        for name, answer in answers.items():
            patches.replace(pynvml, name, answer, absent="packages other than NVIDIA's have a module of this name, too")
        yield
