"""What a program asks of ``torch.cuda`` and of what goes with it."""

from __future__ import annotations

import functools
import sys
import time
import types
import unittest.mock
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu import attaching  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402

CPU, CUDA = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA


@pytest.mark.parametrize("activities", [[CPU, CUDA], [CUDA], None])
def test_the_profiler_records_a_program_that_asks_for_the_card(activities: list[object] | None, books: Books) -> None:
    model, x = torch.nn.Linear(64, 64).cuda(), torch.ones(4, 64, device="cuda")
    since = time.monotonic()
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiled:
        model(x).sum().backward()
    assert profiled.key_averages().table(sort_by="cuda_time_total", row_limit=2)
    assert time.monotonic() - since < 5  # where it asked for an event at each operator: 16 s


@pytest.mark.parametrize("name", ["transformers.utils.devices_of_a_later_release", "accelerate", "torch.utils._triton"])
def test_what_a_framework_remembers_of_a_machine_without_a_gpu_is_forgotten_wherever_it_has_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = types.ModuleType(name)
    module.has_gpu = functools.cache(lambda: torch.cuda.is_available())
    module.lazy = unittest.mock.Mock(cache_clear=unittest.mock.Mock(side_effect=ImportError))
    monkeypatch.setitem(sys.modules, name, module)
    assert not module.has_gpu()
    with Simulation() as simulation, attaching.attached("meta", simulation.mode):
        assert module.has_gpu()
    assert not module.has_gpu()


def test_each_card_of_a_node_has_a_generator(books: Books) -> None:
    assert len(torch.cuda.default_generators) == len(torch.cuda.get_rng_state_all()) == torch.cuda.device_count() == 4
    last = torch.cuda.default_generators[3]
    last.set_state(last.get_state())
