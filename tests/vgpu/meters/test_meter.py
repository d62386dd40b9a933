"""What a collective's thread still holds when the collective is over, on real gloo."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import distributed  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from vgpu.meters.ledger import DEVICE  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of one rank."""
    distributed.init_process_group(
        "gloo", store=distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


class SlowThread(TorchDispatchMode):
    """After each collective, a thread that holds views of its output a little longer, as gloo's all-gather does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.namespace == "c10d":
            threading.Thread(target=self._hold, args=(list(args[0].chunk(2)),)).start()
        return out

    @staticmethod
    def _hold(views: list[torch.Tensor]) -> None:
        time.sleep(0.2)
        views.clear()


@pytest.mark.usefixtures("alone")
def test_a_collective_is_over_when_its_thread_holds_no_view_of_the_output_either() -> None:
    with SlowThread(), TorchMeter() as meter:
        meter.begin()
        shard = torch.ones(1024)
        whole = torch.empty(1024)
        distributed.all_gather_into_tensor(whole, shard)
        del whole
        assert meter.end().device_retained_bytes == meter.ledger.live[DEVICE] == 4 * 1024


def test_every_operator_is_a_sign_of_life() -> None:
    signs: list[None] = []
    with TorchMeter() as meter:
        meter.working = lambda: signs.append(None)
        torch.ones(4) + 1
    assert len(signs) == 2


def test_what_torch_makes_to_find_a_shape_takes_no_memory() -> None:
    with TorchMeter() as meter, FakeTensorMode():
        meter.begin()
        shape = torch.empty(1024) + torch.zeros(1024)
        assert shape.shape == (1024,)
        assert meter.end().device_peak_bytes == 0
