"""DeepSpeed's own optimizer classes, without their compiled kernels."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
fused_adam = pytest.importorskip("deepspeed.ops.adam.fused_adam")
cpu_adam = pytest.importorskip("deepspeed.ops.adam.cpu_adam")

from vgpu.device.books import Books  # noqa: E402

MIB = 1 << 20


def test_in_sim_the_releases_own_fused_adam_allocates_its_states_only(books: Books) -> None:
    parameter = torch.nn.Parameter(torch.zeros(MIB, device="cuda"))
    optimizer = fused_adam.FusedAdam([parameter], lr=0.1)
    parameter.grad = torch.zeros(MIB, device="cuda")
    held = torch.cuda.memory_allocated()
    optimizer.step()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated() == held + 2 * 4 * MIB


def test_in_sim_the_releases_own_cpu_adam_holds_host_memory_only(books: Books) -> None:
    parameter = torch.nn.Parameter(torch.zeros(MIB))
    optimizer = cpu_adam.DeepSpeedCPUAdam([parameter], lr=0.1)
    parameter.grad = torch.zeros(MIB)
    before = books.ledger.live[1]
    optimizer.step()
    books.ledger.settle()
    assert books.ledger.live[1] - before == 2 * 4 * MIB
    assert torch.cuda.memory_allocated() == 0
