"""What a program asks of ``torch.cuda`` and of what goes with it."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

from harness.probe.virtual_gpu import Books  # noqa: E402

CPU, CUDA = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA


@pytest.mark.parametrize("activities", [[CPU, CUDA], [CUDA], None])
def test_the_profiler_records_a_program_that_asks_for_the_card(activities: list[object] | None, books: Books) -> None:
    model, x = torch.nn.Linear(64, 64).cuda(), torch.ones(4, 64, device="cuda")
    since = time.monotonic()
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiled:
        model(x).sum().backward()
    assert profiled.key_averages().table(sort_by="cuda_time_total", row_limit=2)
    assert time.monotonic() - since < 5  # where it asked for an event at each operator: 16 s
