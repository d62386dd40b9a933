"""Collectives are counted by the ranks of their group."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from vgpu.sim import Simulation  # noqa: E402


def test_each_group_is_named_by_its_ranks() -> None:
    with Simulation(0, 16) as simulation:
        strided, odd = dist.new_group([0, 8]), dist.new_group([0, 3, 5])
        simulation.mode.begin()
        tensor = torch.ones(256, device=Simulation.device)
        dist.all_reduce(tensor)
        for _ in range(2):
            dist.all_reduce(tensor, group=strided)
        dist.broadcast(tensor, 0, group=odd)
        reading = simulation.mode.end()
    assert reading.groups == {"all_reduce 0-15": [1, 1024], "all_reduce 0-8/8": [2, 2048], "broadcast 0,3,5": [1, 1024]}
    assert reading.collectives == {"all_reduce": [3, 3072], "broadcast": [1, 1024]}


def test_a_group_that_has_the_name_of_an_earlier_one_is_named_by_its_own_ranks() -> None:
    for size in (8, 4):
        with Simulation(0, size) as simulation:
            simulation.mode.begin()
            dist.all_reduce(torch.ones(256, device=Simulation.device))
            reading = simulation.mode.end()
    assert reading.groups == {"all_reduce 0-3": [1, 1024]}
