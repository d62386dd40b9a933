"""Autocast casts as CUDA's policy does, on tensors that are not on CUDA."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from vgpu import attaching  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402

LOW, FULL = torch.bfloat16, torch.float32


def test_the_lists_of_the_policy(books: Books) -> None:
    x = torch.ones(4, 4, device="cuda")
    low = x.to(LOW)
    functional = torch.nn.functional
    with torch.autocast("cuda", dtype=LOW):
        dtypes = {
            "linear": functional.linear(x, x).dtype,
            "matmul": (x @ x).dtype,
            "attention": functional.scaled_dot_product_attention(*[x.view(1, 1, 4, 4)] * 3).dtype,
            "layer_norm": functional.layer_norm(low, (4,)).dtype,
            "softmax": low.softmax(-1).dtype,
            "sum": low.sum().dtype,
            "norm": low.norm().dtype,
            "pow": low.pow(2).dtype,
            "cross_entropy": functional.cross_entropy(low, torch.zeros(4, dtype=torch.long, device="cuda")).dtype,
            "addcmul": torch.addcmul(x, low, low).dtype,
            "add": (low + low).dtype,
            "double": (x.double() @ x.double()).dtype,
            "host": (torch.ones(2, 2) @ torch.ones(2, 2)).dtype,
        }
    assert dtypes == {
        "linear": LOW, "matmul": LOW, "attention": LOW, "layer_norm": FULL, "softmax": FULL, "sum": FULL, "norm": FULL,
        "pow": FULL, "cross_entropy": FULL, "addcmul": FULL, "add": LOW, "double": torch.float64, "host": FULL,
    }  # fmt: skip
    assert (x @ x).dtype == FULL


def test_a_weight_is_cast_once_and_its_cast_lives_as_long_as_the_outermost_autocast(books: Books) -> None:
    weight = torch.ones(1024, 1024, device="cuda", requires_grad=True)
    x = torch.ones(1, 1024, device="cuda", dtype=LOW)
    torch.nn.functional.linear(x, weight.detach().to(LOW))  # cuBLAS has its workspace
    before = torch.cuda.memory_allocated()
    with torch.no_grad(), torch.autocast("cuda", dtype=LOW):
        for _ in range(2):
            torch.nn.functional.linear(x, weight)
        with torch.autocast("cuda", enabled=False):
            pass
        assert torch.cuda.memory_allocated() - before == 1024 * 1024 * 2
    assert torch.cuda.memory_allocated() == before


def test_gradients_go_through_the_casts(books: Books) -> None:
    weight = torch.ones(8, 8, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.nn.functional.linear(torch.ones(2, 8, device="cuda"), weight).sum()
    loss.backward()
    assert (weight.grad.dtype, loss.dtype) == (FULL, FULL)


def test_a_scaler_steps_and_keeps_its_scale_which_a_checkpoint_reads(books: Books) -> None:
    weight = torch.nn.Parameter(torch.ones(8, device="cuda"))
    optimizer = torch.optim.AdamW([weight])
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1024.0
    resumed = torch.amp.GradScaler("cuda")
    resumed.load_state_dict(scaler.state_dict())
    assert resumed.get_scale() == 1024.0
    assert torch.amp.GradScaler("cuda", enabled=False).get_scale() == 1.0
    assert weight in optimizer.state


def test_on_cpu_ranks_the_result_is_that_of_the_cpus_own_autocast_where_both_cast() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    x = torch.randn(8, 16)
    with torch.autocast("cpu", dtype=LOW):
        expected = model(x)
    by_hand = torch.nn.functional.linear(x.to(LOW), model[0].weight.to(LOW), model[0].bias.to(LOW))
    with TorchMeter("cpu", trace=True) as meter, attaching.attached("cpu", meter), torch.autocast("cuda", dtype=LOW):
        assert torch.equal(model(x.cuda()), expected)
        assert torch.equal(model[0](x), by_hand)
