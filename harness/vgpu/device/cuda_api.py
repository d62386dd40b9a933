"""``torch.cuda`` as a program on a GPU finds it.

Every answer comes from the card (`VirtualCard`), from the books (`Books`), or has no effect because nothing runs
asynchronously. Requests that need a real GPU (graphs, IPC, a compiled kernel) are refused.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Any

import torch

from vgpu import no_stand_in
from vgpu.device import own_kernels
from vgpu.device.books import Books
from vgpu.device.card import VirtualCard
from vgpu.device.devices import _LEGACY, Ordinals
from vgpu.loaded import loaded_modules
from vgpu.meters.ledger import DEVICE
from vgpu.no_stand_in import StandIn
from vgpu.replacing import Patches
from vgpu.sim import streams
from vgpu.sim.errors import SimulationError, caller, location

#: The CUDA version for builds of torch that have none: that of their time.
_CUDA_VERSION = "12.8"
_NCCL_VERSION = (2, 27, 3)


#: From which release on ``torch.cuda`` has a name at the latest; torch 2.2 has all others. By the sources of 2.2, 2.3,
#: 2.6, 2.13 and 2.15.
_SINCE = {
    **dict.fromkeys(("MemPool", "device_memory_used", "get_per_process_memory_fraction"), "torch 2.6"),
    **dict.fromkeys(("host_memory_stats", "is_tf32_supported", "reset_peak_host_memory_stats"), "torch 2.13"),
}
#: The same for ``torch.accelerator``, which exists from 2.6 on.
_ACCELERATOR_SINCE = dict.fromkeys(
    ("device_index", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "empty_cache",
     "memory_stats", "reset_peak_memory_stats", "get_memory_info"),
    "torch 2.13",
)  # fmt: skip


class DeviceProperties(StandIn):
    """The result of ``torch.cuda.get_device_properties``."""

    def __init__(self, card: VirtualCard) -> None:
        super().__init__("torch.cuda.get_device_properties()")
        self.name = card.name
        self.major, self.minor = card.compute_capability
        self.total_memory = card.memory_bytes
        self.multi_processor_count = card.multiprocessors
        self.is_integrated = self.is_multi_gpu_board = 0
        self.warp_size = 32
        self.max_threads_per_multi_processor = 2048
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 49152
        self.shared_memory_per_block_optin = 232448 if self.major >= 9 else 166912
        self.shared_memory_per_multiprocessor = self.shared_memory_per_block_optin + 1024
        self.L2_cache_size = 50 << 20
        self.gcnArchName = ""
        self.uuid = "00000000-0000-0000-0000-000000000000"

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count})"
        )


class _SelectedDevice:
    """Selects a card within a block; ``None`` and -1 change nothing."""

    _ordinals: Ordinals

    def __init__(self, device: object) -> None:
        self.idx = self._ordinals.index(device)
        self.prev_idx = self._ordinals.current

    def __enter__(self) -> None:
        self.prev_idx, self._ordinals.current = self._ordinals.current, self.idx

    def __exit__(self, *exc: object) -> None:
        self._ordinals.current = self.prev_idx


class _DeviceOfTensor(_SelectedDevice):
    """Selects the card of a tensor within a block, which is the rank's own."""

    def __init__(self, obj: object) -> None:
        super().__init__(None)


def _selecting(kind: type[_SelectedDevice], name: str, module: str, ordinals: Ordinals) -> type[_SelectedDevice]:
    """Return torch's class of that name for a rank's cards."""
    return type(name, (kind,), {"_ordinals": ordinals, "__module__": module, "__doc__": kind.__doc__})


@contextlib.contextmanager
def answered(card: VirtualCard, books: Books, ordinals: Ordinals) -> Iterator[None]:
    """Replace ``torch.cuda``, and the other functions by which a program queries its GPU, within the block."""
    with Patches("the card answers") as patches:
        cuda: Any = torch.cuda
        answers = {
            **_of_the_card(card, books, ordinals),
            **_of_the_books(books),
            **_of_the_generators(ordinals),
            **_of_the_streams(),
            **_real_gpu_calls(cuda),
        }
        for name, answer in answers.items():
            patches.replace(cuda, name, answer, since=_SINCE.get(name, ""))
        patches.replace(cuda, "_lazy_init", _nothing)
        patches.replace(cuda, "_is_compiled", lambda: True)
        own_kernels.own_kernels_refused(patches)
        _memory_module(patches, answers)
        _legacy_types(patches)
        _builds(patches)
        _accelerators(patches, ordinals, answers)
        _profiler(patches)
        patches.add(torch._C, "_cuda_clearCublasWorkspaces", books.clear_workspaces)
        patches.add(torch._C, "_cuda_getDeviceCount", lambda: ordinals.count)
        patches.add(torch._C, "_cuda_isInBadFork", lambda: False)
        patches.add(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)
        patches.add(torch._C, "_scatter", _scatter)
        scattering = importlib.import_module("torch.nn.parallel._functions")
        patches.replace(scattering, "_get_stream", _nothing)
        _cached_answers()
        try:
            with no_stand_in.refused(_not_answered):
                yield
        finally:
            patches.close()
            _cached_answers()


def _profiler(patches: Patches) -> None:
    """Declare CUDA a supported activity; the profiler records only the host. If the card's activity is unsupported, the
    profiler refuses, or asks for a CUDA event at each operator, and without CUDA each error message takes half a second to
    build."""
    everything = {torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA}
    for module in (torch.autograd, importlib.import_module("torch.autograd.profiler")):
        patches.replace(module, "_supported_activities", lambda: everything)


#: Less than this on the wrong card, such as a context or a first small tensor, is not reported.
_MUCH_BYTES = 64 << 20


def _of_the_card(card: VirtualCard, books: Books, ordinals: Ordinals) -> dict[str, object]:
    def set_device(device: object) -> None:
        held = books.ledger.live[DEVICE]
        if not ordinals.is_set and ordinals.is_first_used and ordinals.count > 1 and held >= _MUCH_BYTES:
            each, all_of_them = (f"{nbytes / (1 << 30):.1f} GiB" for nbytes in (held, ordinals.count * held))
            books.note(
                f"each of the {ordinals.count} ranks of a node puts {each} on GPU 0 before torch.cuda.set_device, "
                f"{all_of_them} in all; the figures are those of a rank alone"
            )
        ordinals.set(device)

    def exchange(index: int) -> int:
        before = ordinals.current
        if index >= 0:
            ordinals.current = index
        return before

    def properties(device: object = None) -> DeviceProperties:
        return DeviceProperties(card)

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing,
        "device_count": lambda: ordinals.count,
        "_device_count_nvml": lambda: ordinals.count,
        "current_device": lambda: ordinals.current,
        "set_device": set_device,
        "_exchange_device": exchange,
        "_maybe_exchange_device": exchange,
        "device": _selecting(_SelectedDevice, "device", "torch.cuda", ordinals),
        "device_of": _selecting(_DeviceOfTensor, "device_of", "torch.cuda", ordinals),
        "get_device_name": lambda device=None: card.name,
        "get_device_properties": properties,
        "get_device_capability": lambda device=None: card.compute_capability,
        "get_arch_list": lambda: ["sm_{}{}".format(*card.compute_capability)],
        "get_gencode_flags": lambda: "",
        "is_bf16_supported": lambda including_emulation=True: card.compute_capability[0] >= 8,
        "is_tf32_supported": lambda: card.compute_capability[0] >= 8,
        "can_device_access_peer": lambda device, peer_device: True,
        "synchronize": streams.synchronize,
        "ipc_collect": _nothing,
        "utilization": lambda device=None: 0,
        "memory_usage": lambda device=None: 0,
        "set_sync_debug_mode": _nothing,
        "get_sync_debug_mode": lambda: 0,
        "set_per_process_memory_fraction": _nothing,
        "get_per_process_memory_fraction": lambda device=None: 1.0,
        "_lazy_call": lambda call, **_: call(),
        "_get_device_index": _index(ordinals),
    }


def _index(ordinals: Ordinals) -> object:
    def get_device_index(device: object = None, optional: bool = False, allow_cpu: bool = False) -> int:
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device) and device.type == "cpu" and allow_cpu:
            return -1
        return ordinals.index(device)

    return get_device_index


def _of_the_books(books: Books) -> dict[str, object]:
    def of(figure: Any) -> Any:
        return lambda device=None: figure()

    def read(figure: Any) -> Any:
        """Return a function of ``torch.cuda`` that returns ``figure()`` and records the call as a reading of memory."""

        def answer(device: object = None) -> object:
            books.readings.called()
            return figure()

        return answer

    def summary(device: object = None, abbreviated: bool = False) -> str:
        return "\n".join(f"{name}: {value}" for name, value in books.stats().items())

    return {
        "memory_allocated": read(books.allocated),
        "max_memory_allocated": read(books.max_allocated),
        "memory_reserved": read(books.reserved),
        "max_memory_reserved": read(books.max_reserved),
        "memory_cached": of(books.reserved),
        "max_memory_cached": of(books.max_reserved),
        "device_memory_used": of(books.reserved),
        "reset_peak_memory_stats": of(books.reset_peaks),
        "reset_max_memory_allocated": of(books.reset_peaks),
        "reset_max_memory_cached": of(books.reset_peaks),
        "reset_accumulated_memory_stats": _nothing,
        "memory_stats": of(books.stats),
        "memory_stats_as_nested_dict": of(lambda: _nested(books.stats())),
        "memory_summary": summary,
        "mem_get_info": of(lambda: (books.free(), books.card.memory_bytes)),
        "empty_cache": books.empty_cache,
        "memory_snapshot": lambda *_, **__: [],
        "list_gpu_processes": lambda device=None: "",
        "host_memory_stats": _no_stats,
        "reset_peak_host_memory_stats": _nothing,
        "get_allocator_backend": lambda: "native",
    }


def _nested(stats: dict[str, int]) -> dict[str, object]:
    nested: dict[str, Any] = {}
    for name, value in stats.items():
        *path, last = name.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


class _CardGenerator(torch.Generator):
    """Holds the seed and state of the card's generator: in sim nothing is drawn, in cpu mode the host draws everything."""

    _seed = 0

    def manual_seed(self, seed: int) -> _CardGenerator:
        self._seed = int(seed)
        return self

    def seed(self) -> int:
        self._seed += 1
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> torch.Tensor:
        return torch.zeros(16, dtype=torch.uint8)  # as many bytes as CUDA's: a seed and an offset

    def set_state(self, new_state: torch.Tensor) -> _CardGenerator:
        return self


def _of_the_generators(ordinals: Ordinals) -> dict[str, object]:
    generator = _CardGenerator()
    generator.manual_seed(torch.initial_seed())
    return {
        "manual_seed": generator.manual_seed,
        "manual_seed_all": generator.manual_seed,
        "seed": generator.seed,
        "seed_all": generator.seed,
        "initial_seed": generator.initial_seed,
        "get_rng_state": lambda device="cuda": generator.get_state(),
        "get_rng_state_all": lambda: [generator.get_state()] * ordinals.count,
        "set_rng_state": _nothing,
        "set_rng_state_all": _nothing,
        "default_generators": (generator,) * ordinals.count,
    }


def _of_the_streams() -> dict[str, object]:
    return {
        "Stream": streams.Stream,
        "ExternalStream": streams.Stream,
        "Event": streams.Event,
        "StreamContext": streams.StreamContext,
        "stream": lambda stream: streams.StreamContext(stream),
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "set_stream": streams.set_stream,
        "current_blas_handle": lambda: 0,
        "is_current_stream_capturing": lambda: False,
    }


def _real_gpu_calls(cuda: object) -> dict[str, Any]:
    """Return what needs a real GPU, by name: functions and classes that are refused when they are called."""

    def refuse(name: str) -> Any:
        def __new__(*_: object, **__: object) -> Any:
            raise SimulationError(f"torch.cuda.{name} needs a GPU: run this program on cuda. At {location(caller())}")

        own = getattr(cuda, name, None)
        if not isinstance(own, type):
            return __new__
        return type(name, (own,), {"__new__": __new__, "__module__": own.__module__})

    names = ("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle", "MemPool", "CUDAPluggableAllocator")
    return {name: refuse(name) for name in names}


def _not_answered(error: BaseException) -> str:
    """Return the name of the ``torch._C._cuda...`` function that ``error`` reports as missing, which a CPU build lacks;
    empty for any other error. So a function of ``torch.cuda`` ends that is not replaced here."""
    name = str(getattr(error, "name", None) or "")
    is_of_torch = isinstance(error, AttributeError) and error.obj is torch._C
    return f"torch._C.{name}" if is_of_torch and name.startswith("_cuda") else ""


def _memory_module(patches: Patches, answers: dict[str, object]) -> None:
    """Replace what has the same names in ``torch.cuda.graphs``, ``.memory``, ``.random`` and ``.streams``."""
    for module in (torch.cuda.graphs, torch.cuda.memory, torch.cuda.random, torch.cuda.streams):
        for name in vars(module).keys() & answers.keys():
            patches.replace(module, name, answers[name])
    memory: Any = torch.cuda.memory
    patches.replace(memory, "_record_memory_history", _nothing)
    patches.replace(memory, "_snapshot", lambda *_, **__: {"segments": [], "device_traces": [[]]})
    patches.replace(memory, "_dump_snapshot", _nothing)
    nvtx: Any = torch.cuda.nvtx
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        patches.replace(nvtx, name, _nothing)
    patches.replace(torch.cuda.nccl, "version", lambda: _NCCL_VERSION)
    patches.replace(torch.cuda.nccl, "is_available", lambda tensors: True)


def _legacy_types(patches: Patches) -> None:
    """Replace ``torch.cuda.FloatTensor`` and its like."""

    def make(name: str, dtype: torch.dtype) -> Any:
        class LegacyTensorType(type):
            def __instancecheck__(cls, instance: object) -> bool:
                return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == dtype

        def __new__(cls: object, *args: object, **kwargs: object) -> Any:
            if len(args) == 1 and not isinstance(args[0], int):
                return torch.tensor(args[0], dtype=dtype, device="cuda")
            return torch.empty(args, dtype=dtype, device="cuda")

        return LegacyTensorType(name, (), {"__new__": __new__, "__module__": "torch.cuda", "dtype": dtype})

    for short, dtype in _LEGACY.items():
        patches.replace(torch.cuda, f"{short}Tensor", make(f"{short}Tensor", dtype))


def _builds(patches: Patches) -> None:
    if torch.version.cuda is None:
        patches.replace(torch.version, "cuda", _CUDA_VERSION)
    patches.replace(torch.backends.cuda, "is_built", lambda: True)
    patches.replace(torch.backends.cudnn, "is_available", lambda: True)
    patches.replace(torch.backends.cudnn, "version", lambda: 91002)


def _accelerators(patches: Patches, ordinals: Ordinals, answers: dict[str, object]) -> None:
    """Replace ``torch.accelerator`` (2.6 and newer), and the query that FSDP and process groups use in its place."""
    patches.replace(torch._C, "_get_accelerator", lambda check=None: torch.device("cuda"), since="torch 2.6")
    if not patches.has(torch, "accelerator", since="torch 2.6"):
        return
    accelerator: Any = torch.accelerator
    for name, answer in {
        "is_available": lambda: True,
        "device_count": lambda: ordinals.count,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: ordinals.current,
        "current_device_idx": lambda: ordinals.current,
        "set_device_index": answers["set_device"],
        "set_device_idx": answers["set_device"],
        "synchronize": streams.synchronize,
        "device_index": _selecting(_SelectedDevice, "device_index", "torch.accelerator", ordinals),
        "current_stream": streams.current_stream,
        "set_stream": streams.set_stream,
        **{name: answers[name] for name in ("memory_allocated", "max_memory_allocated", "memory_reserved",
            "max_memory_reserved", "empty_cache", "memory_stats", "reset_peak_memory_stats")},
        "get_memory_info": answers["mem_get_info"],
    }.items():  # fmt: skip
        patches.replace(accelerator, name, answer, since=_ACCELERATOR_SINCE.get(name, ""))


#: Packages imported ahead of a program, which may have looked for a GPU before it existed.
_IMPORTED_AHEAD = ("transformers", "accelerate", "trl", "peft", "torch.utils._triton")


def _cached_answers() -> None:
    """Clear all `functools.lru_cache` results in frameworks imported ahead of the program: they may remember that there was
    no GPU."""
    for name, _, held in loaded_modules():
        if f"{name}.".startswith(tuple(f"{package}." for package in _IMPORTED_AHEAD)):
            for function in list(held.values()):
                if isinstance(function, functools._lru_cache_wrapper):
                    function.cache_clear()


def _scatter(tensor: torch.Tensor, devices: Any, *_: object) -> tuple[torch.Tensor, ...]:
    """Stand in for DataParallel's scatter, on one card; the cards of other ranks were refused before."""
    return (tensor.to(f"cuda:{devices[0]}"),)


def _no_stats() -> dict[str, Any]:
    return {}


def _nothing(*_: object, **__: object) -> None:
    """Do nothing."""
