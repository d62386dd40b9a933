"""A group's collectives end in the order in which they began."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from dsregress.probe.border import faults  # noqa: E402
from vgpu.device.ordered_gloo import OrderedGloo  # noqa: E402


@pytest.fixture
def ranks() -> list[Any]:
    """Two, in one process."""
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda rank: OrderedGloo(store, rank, 2), range(2)))


def test_who_waits_for_the_last_collective_has_waited_for_all(ranks: list[Any]) -> None:
    large_then_small = [[torch.ones(size) for size in (2**24, 1)] for _ in ranks]
    works = [[rank.allreduce([tensor]) for tensor in tensors] for rank, tensors in zip(ranks, large_then_small)]
    for of_rank in works:
        of_rank[-1].wait()
        assert all(work.is_completed() for work in of_rank)
    assert all(large.eq(2).all() for large, _ in large_then_small)


def test_an_argument_that_a_release_of_torch_adds_becomes_an_option() -> None:
    group = OrderedGloo(dist.HashStore(), 0, 1, group_name="an option that was there before")
    assert group.options.group_name == "an option that was there before"


def test_what_its_options_do_not_have_is_the_harness_failing() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_option'") as caught:
        OrderedGloo(dist.HashStore(), 0, 1, no_such_option=True)
    assert faults.stage_of(caught.value) == "harness"


def test_its_groups_meet_by_the_interface_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no_such_interface")
    with pytest.raises(RuntimeError, match="no_such_interface"):
        OrderedGloo(dist.HashStore(), 0, 1)
