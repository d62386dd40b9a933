"""SyncBatchNorm, whose kernels torch has for GPUs alone."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from vgpu.attaching import attached  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402


def test_two_ranks_with_halves_of_a_batch_compute_what_one_does_with_all_of_it() -> None:
    torch.manual_seed(0)
    x, gradient, weight, bias = torch.randn(6, 3, 4), torch.randn(6, 3, 4), torch.randn(3), torch.randn(3)
    running = [torch.zeros(3), torch.ones(3)]
    whole = torch.nn.BatchNorm1d(3)
    whole.weight.data, whole.bias.data = weight, bias
    inputs = x.clone().requires_grad_()
    expected = whole(inputs)
    expected.backward(gradient)

    halves = (x[:2], x[2:])
    stats = [torch.batch_norm_stats(half, 1e-5) for half in halves]
    counts = torch.tensor([8.0, 16.0])
    means, scales = (torch.stack(each) for each in zip(*stats))
    mean, scale = torch.batch_norm_gather_stats_with_counts(x, means, scales, *running, 0.1, 1e-5, counts)
    out = torch.cat([torch.batch_norm_elemt(half, weight, bias, mean, scale, 1e-5) for half in halves])
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(running, [whole.running_mean, whole.running_var])

    parts = [
        torch.batch_norm_backward_reduce(g, half, mean, scale, weight, True, True, True)
        for g, half in zip((gradient[:2], gradient[2:]), halves)
    ]
    total, moment, of_weight, of_bias = (torch.stack(each).sum(0) for each in zip(*parts))
    back = [
        torch.batch_norm_backward_elemt(g, half, mean, scale, weight, total, moment, counts.int())
        for g, half in zip((gradient[:2], gradient[2:]), halves)
    ]
    torch.testing.assert_close(torch.cat(back), inputs.grad)
    torch.testing.assert_close([of_weight, of_bias], [whole.weight.grad, whole.bias.grad])


def test_it_trains_in_sim_and_keeps_its_input(books: Books) -> None:
    dist.init_process_group("nccl")
    norm = torch.nn.SyncBatchNorm(64).cuda()
    x = torch.randn(8, 64, 32, 32, device="cuda").requires_grad_()
    before = torch.cuda.memory_allocated()
    out = norm(x)
    assert torch.cuda.memory_allocated() - before == out.nbytes + 3 * 512  # two statistics and the ranks' counts
    out.sum().backward()
    assert x.grad.shape == x.shape


def test_ddp_takes_it_on_cpu_ranks(tmp_path: Any) -> None:
    with attached("cpu", TorchMeter(device="cpu")):
        dist.init_process_group("nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.Sequential(torch.nn.BatchNorm1d(4))).cuda()
        out = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])(torch.randn(8, 4, device="cuda"))
        out.sum().backward()
        dist.destroy_process_group()
