"""From torch's memory snapshot, as its documentation describes it, to who holds the memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from dsregress.probe.holders import categories, snapshot
from tests.builders.storages import Storage, Tensor, by_category
from vgpu.figures import PhaseReading
from vgpu.meters.ledger import DEVICE, HOST, StorageLedger

PACKAGES = "/env/lib/python3.11/site-packages"


def frame(path: str, line: int, name: str) -> dict[str, Any]:
    return {"filename": path, "line": line, "name": name}


GATHER = [
    frame("/src/torch/csrc/empty.py", 1, "empty"),
    frame(f"{PACKAGES}/torch/utils/_contextlib.py", 116, "decorate_context"),
    frame(f"{PACKAGES}/deepspeed/runtime/zero/partition_parameters.py", 1254, "all_gather_coalesced"),
    frame(f"{PACKAGES}/deepspeed/runtime/zero/partitioned_param_coordinator.py", 314, "fetch_sub_module"),
    frame("/usr/lib/python3.11/threading.py", 982, "run"),
]


class Device(Storage):
    """A storage on the device, at an address."""

    def __init__(self, nbytes: int, address: int) -> None:
        super().__init__(nbytes)
        self._address = address

    def data_ptr(self) -> int:
        return self._address


class Gpu:
    """An allocator that keeps a history, and the recorder that reads it."""

    def __init__(self) -> None:
        self.trace: list[dict[str, Any]] = []
        self.held: list[Storage] = []
        self.ledger = StorageLedger()
        framework = SimpleNamespace(holders=self._holders)
        self.recorder = snapshot.CudaSiteRecorder(self.ledger, framework, "deepspeed", snapshot=self.snapshot, device=0)
        self.recorder.built(self)

    def _holders(self, training: object) -> list[tuple[str, str, Tensor]]:
        return [(categories.GATHERED, "layers.7.weight", Tensor(one)) for one in self.held]

    def snapshot(self) -> dict[str, Any]:
        return {"segments": [], "device_traces": [list(self.trace)]}

    def allocate(self, nbytes: int, address: int, frames: list[Any], *, storage: bool = True) -> Storage:
        self.trace.append({"action": "alloc", "addr": address, "size": nbytes, "stream": 0, "frames": frames})
        made = Device(nbytes, address)
        if storage:
            self.ledger.add(made, DEVICE)
        return made

    def free(self, address: int) -> None:
        for action in ("free_requested", "free_completed"):
            self.trace.append({"action": action, "addr": address, "size": 1, "stream": 0, "frames": []})

    @contextlib.contextmanager
    def metered(self, name: str) -> Iterator[None]:
        self.ledger.reset_peak()
        yield
        self.ledger.settle()

    def phase(self, name: str) -> Any:
        return self.recorder.phase(name, self.metered)


def test_a_site_is_read_off_the_frames_of_the_history() -> None:
    site, via, own = snapshot.where(GATHER, "deepspeed")
    assert site == "deepspeed/runtime/zero/partition_parameters.py:1254 in all_gather_coalesced"
    assert via[0] == "deepspeed/runtime/zero/partitioned_param_coordinator.py:314 in fetch_sub_module"
    assert own


def test_the_history_becomes_one_event_for_each_entry() -> None:
    gpu = Gpu()
    gpu.trace.append({"action": "segment_alloc", "addr": 0, "size": 2 << 20, "stream": 0, "frames": []})
    gpu.allocate(1000, 512, GATHER)
    gpu.free(512)
    gpu.free(4096)  # made before the history began
    events, addresses, _ = snapshot.snapshot_history(gpu.snapshot(), 0)
    assert [nbytes for _, nbytes, _, _ in events] == [0, 1024, -1024, 0, 0, 0]
    assert addresses == {2: 512}


def test_blocks_are_what_the_storages_at_their_addresses_are_for_and_add_up_to_the_allocators_figure() -> None:
    gpu = Gpu()
    with gpu.phase("backward"):
        gpu.held.append(gpu.allocate(1000, 512, GATHER))
        gpu.allocate(5000, 2048, [], storage=False)  # a library's workspace
        gpu.free(2048)
    gpu.recorder.measured(
        {"backward": PhaseReading(device_peak_bytes=6656, device_retained_bytes=1536, host_retained_bytes=0)}
    )
    moments = gpu.recorder.explanation(0).moments
    retained, peak = moments["backward.device_retained_bytes"], moments["backward.device_peak_bytes"]
    assert (retained.nbytes, peak.nbytes) == (1536, 6656)
    assert by_category(retained) == {categories.GATHERED: 1024, categories.ROUNDING: 512}
    assert by_category(peak) == {categories.GATHERED: 1024, categories.TEMPORARY: 5120, categories.ROUNDING: 512}
    assert retained.held[0].module == "layers.*.weight"


def test_the_hosts_memory_is_the_ledgers_on_a_gpu_too() -> None:
    gpu = Gpu()
    with gpu.phase("init"):
        kept = Storage(77)
        gpu.ledger.add(kept, HOST)
    assert gpu.recorder.explanation(0).moments["init.host_retained_bytes"].nbytes == 77
    assert kept.nbytes() == 77
