"""The store of a simulated rank is as if all ranks had done what this one has."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed.distributed_c10d import _get_default_store  # noqa: E402

from vgpu.no_stand_in import NoStandInError  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402


def test_torchs_own_barrier_by_the_store_is_passed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DIST_INIT_BARRIER", "1")
    with Simulation(3, 16):
        dist.new_group([0, 3, 5])


def test_a_program_counts_writes_and_reads_as_on_real_ranks() -> None:
    with Simulation(3, 16):
        store = dist.PrefixStore("of/the/program", _get_default_store())
        assert store.add("arrived", 1) == 16
        assert store.add("arrived", 0) == 16
        store.set("mine", "here")
        store.wait(["mine", "written by rank 0"])
        assert store.get("mine") == b"here"
        assert store.compare_set("mine", "here", "gone") == b"gone"
        assert store.check(["mine"])
        assert not store.check(["never written"])
        assert store.delete_key("mine")
        assert not store.check(["mine"])


def test_a_value_of_another_rank_is_unknown_and_not_waited_for() -> None:
    with (
        Simulation(3, 16),
        pytest.raises(NoStandInError, match="the store's '.*port' is another rank's to write: run on"),
    ):
        _get_default_store().get("port")
