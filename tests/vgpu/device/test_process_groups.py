"""A program joins by the names that it uses on GPUs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from dsregress.probe.border.detail_lines import place_of_gathering  # noqa: E402
from dsregress.probe.border.faults import detail_of  # noqa: E402
from vgpu.attaching import attached  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402
from vgpu.own_copies import place_of_copies  # noqa: E402
from vgpu.sim import SimulationError  # noqa: E402

DIM = 512
SHARE = DIM // 4 * DIM * 4  #: bytes of a quarter of a weight


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl", None])
def test_a_rank_joins_by_itself_and_hears_the_backend_that_it_named(backend: str | None, books: Books) -> None:
    assert not dist.is_initialized()
    dist.init_process_group(backend)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.is_nccl_available()) == (
        0,
        4,
        "nccl",
        True,
    )
    assert dist.get_backend(dist.new_group([0, 1], backend="gloo")) == "gloo"
    dist.destroy_process_group()
    assert not dist.is_initialized()


def _group_by_internals(url: str, rank: int, size: int) -> Any:
    """As OpenRLHF 0.7 makes the group of a trainer's rank and an engine."""
    c10d: Any = dist.distributed_c10d
    store, rank, size = next(c10d.rendezvous(url, rank, size, timeout=c10d.default_pg_timeout))
    store.set_timeout(c10d.default_pg_timeout)
    store = dist.PrefixStore("engine", store)
    group, _ = c10d._new_process_group_helper(
        size, rank, [], dist.Backend("nccl"), store, group_name="engine", timeout=c10d.default_pg_timeout
    )
    c10d._world.pg_group_ranks[group] = {i: i for i in range(size)}
    return group


def test_a_group_with_processes_that_are_not_there_waits_for_none_of_them(books: Books) -> None:
    dist.init_process_group("nccl")
    group = _group_by_internals("tcp://127.0.0.1:1", 0, 2)
    assert (dist.get_backend(group), dist.get_world_size(group), dist.get_world_size()) == ("nccl", 2, 4)
    dist.broadcast(torch.ones(4, device="cuda"), 0, group=group)


def test_a_group_of_torchs_internals_is_gloos_on_real_ranks(tmp_path: Path) -> None:
    with attached("cpu", TorchMeter(device="cpu")):
        dist.init_process_group("nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
        group = _group_by_internals(f"file://{tmp_path}/engine", 0, 1)
        sent = torch.ones(4)
        dist.broadcast(sent, 0, group=group)
        assert sent.tolist() == [1, 1, 1, 1]
        dist.destroy_process_group()


def test_a_barrier_may_name_its_card(books: Books) -> None:
    dist.init_process_group("nccl")
    dist.barrier(device_ids=[0])


def test_a_barrier_may_name_its_card_on_real_ranks(tmp_path: Path) -> None:
    with attached("cpu", TorchMeter(device="cpu")):
        dist.init_process_group("nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
        dist.barrier(device_ids=[0])
        dist.barrier(dist.group.WORLD, device_ids=[0])
        assert dist.barrier(async_op=True).wait()
        dist.destroy_process_group()


def test_what_is_saved_in_the_background_does_not_meet_the_collectives_of_training(tmp_path: Path) -> None:
    """gloo ends a process whose threads call one group at once, with other sizes on the other ranks."""
    with attached("cpu", TorchMeter(device="cpu")):
        c10d: Any = dist.distributed_c10d
        dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
        with ThreadPoolExecutor(1) as threads:
            of_a_thread = threads.submit(c10d._get_default_group).result()
        assert c10d._get_default_group() is dist.group.WORLD is not of_a_thread
        dist.destroy_process_group()
        dist.init_process_group("nccl", init_method=f"file://{tmp_path}/again", rank=0, world_size=1)
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(c10d._get_default_group).result() is dist.group.WORLD
        dist.destroy_process_group()


def test_objects_are_those_of_ranks_that_agree(books: Books) -> None:
    dist.init_process_group("nccl")
    gathered: list[object] = [None] * 4
    dist.all_gather_object(gathered, {"loss": 1})
    assert gathered == [{"loss": 1}] * 4
    assert place_of_copies().endswith("in test_objects_are_those_of_ranks_that_agree")
    assert "test_process_groups.py:" in place_of_gathering(detail_of(ValueError("rows are lost")))
    mine = ["run-1"]
    dist.broadcast_object_list(mine, src=0)
    assert mine == ["run-1"]
    with pytest.raises(SimulationError, match="simulate rank 1"):
        dist.broadcast_object_list([None], src=1)


def test_ddp_holds_parameters_gradients_and_its_buckets(books: Books) -> None:
    dist.init_process_group("nccl")
    model = torch.nn.Linear(DIM, DIM, bias=False).to(0)
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    parallel(torch.ones(1, DIM, device="cuda")).sum().backward()
    held = torch.cuda.memory_allocated() - 2 * books.card.blas_workspace_bytes
    assert 3 * 4 * SHARE <= held < 3 * 4 * SHARE + 64 * 1024


def test_fsdp2_holds_a_share_of_each_weight_and_of_its_states(books: Books) -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("this release of torch has no fully_shard")
    mesh = torch.distributed.device_mesh.init_device_mesh("cuda", (4,))
    model = torch.nn.Sequential(*[torch.nn.Linear(DIM, DIM, bias=False) for _ in range(4)])
    for layer in model:
        fsdp.fully_shard(layer, mesh=mesh)
    fsdp.fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.ones(1, DIM, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    held = torch.cuda.memory_allocated() - 2 * books.card.blas_workspace_bytes
    assert 4 * 3 * SHARE <= held < 4 * 3 * SHARE + 64 * 1024
    assert model[0].weight.is_cuda


def test_gloo_gathers_shapes_that_nccl_takes(tmp_path: Path) -> None:
    meter = TorchMeter(device="cpu")
    with attached("cpu", meter):
        dist.init_process_group("nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
        flat = torch.empty(2)
        dist.all_gather_into_tensor(flat, torch.ones(2, 1, requires_grad=True))
        dist.destroy_process_group()
    assert flat.tolist() == [1.0, 1.0]


def _gathered_by_a_rank(rank: int, meeting: str) -> None:
    with attached("cpu", TorchMeter(device="cpu"), rank=rank, world_size=2):
        dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=2)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(2)]
        dist.all_gather(lengths, torch.tensor(2 + rank))
        rows = [torch.zeros(1, 2), torch.zeros(1, 3)]
        dist.all_gather(rows, torch.full((1, 2 + rank), 1.0 + rank))
        later = [torch.zeros(2), torch.zeros(3)]
        dist.all_gather(later, torch.full((2 + rank,), 1.0 + rank), async_op=True).wait()
        dist.destroy_process_group()
    assert [one.tolist() for one in lengths] == [[2], [3]]
    assert [one.tolist() for one in rows] == [[[1.0] * 2], [[2.0] * 3]]
    assert [one.tolist() for one in later] == [[1.0] * 2, [2.0] * 3]


def test_gloo_gathers_lists_of_other_shapes_and_unlike_sizes_as_nccl_does(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_gathered_by_a_rank, (str(tmp_path / "meeting"),), nprocs=2)


def _average_of_a_rank(rank: int, meeting: str) -> None:
    with attached("cpu", TorchMeter(device="cpu"), rank=rank, world_size=2):
        dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=2)
        counts, losses = torch.tensor([3 * rank, -3 * rank]), torch.tensor([3.0 * rank])
        dist.all_reduce(counts, op=dist.ReduceOp.AVG)
        dist.all_reduce(losses, dist.ReduceOp.AVG)
        more = torch.tensor(7 * rank)
        work = dist.all_reduce(more, dist.ReduceOp.AVG, async_op=True)
        assert work.wait()
        dist.destroy_process_group()
    assert (counts.tolist(), losses.tolist(), more.item()) == ([1, -1], [1.5], 3)


def test_gloo_averages_integers_as_nccl_does(tmp_path: Path) -> None:
    torch.multiprocessing.start_processes(
        _average_of_a_rank, (str(tmp_path / "meeting"),), nprocs=2, start_method="fork"
    )
