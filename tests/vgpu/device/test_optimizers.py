"""Optimizers hold and launch what they do on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.device import kernels, launching  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.device.card import VirtualCard  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402
from vgpu.sim import SimulationError  # noqa: E402

MIB = 1 << 20


class Deciding(torch.optim.Optimizer):
    """As Prodigy: a parameter that is nonzero is copied, and steps on elements that agree."""

    def __init__(self, parameters: Any, decide: Any) -> None:
        super().__init__(parameters, {})
        self._decide = decide

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if closure is not None:
            closure()
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["p0"] = parameter.detach().clone() if self._decide(parameter) else None


def peak_of_a_step(**options: Any) -> int:
    """Bytes above what is held, of the second step on four parameters of 4 MiB."""
    parameters = [torch.nn.Parameter(torch.zeros(MIB, device="cuda")) for _ in range(4)]
    optimizer = torch.optim.AdamW(parameters, **options)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.zeros(MIB, device="cuda")
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        optimizer.step()
    return int(torch.cuda.max_memory_allocated() - held)


def test_torch_takes_many_tensors_at_a_time_unless_it_is_set_otherwise(books: Books) -> None:
    assert peak_of_a_step() == 16 * MIB
    assert peak_of_a_step(foreach=False) == 12 * MIB


def test_torchs_fused_kernel_has_no_temporaries(books: Books) -> None:
    assert peak_of_a_step(fused=True) < MIB


@pytest.mark.parametrize("lr", [0.1, "tensor"])
@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_every_fused_optimizer_steps_without_temporaries(books: Books, name: str, lr: float | str) -> None:
    parameters = [torch.nn.Parameter(torch.zeros(MIB, device="cuda")) for _ in range(4)]
    rate = torch.tensor(0.1, device="cuda") if lr == "tensor" else lr
    options = {"momentum": 0.9, "nesterov": True} if name == "SGD" else {}
    try:
        optimizer = getattr(torch.optim, name)(parameters, lr=rate, fused=True, **options)
    except (RuntimeError, TypeError, ValueError) as refused:
        pytest.skip(f"torch itself: {refused}")
    states = {"SGD": 1, "Adagrad": 1}.get(name, 2)
    for parameter in parameters:
        parameter.grad = torch.zeros(MIB, device="cuda")
    optimizer.step()
    assert 4 * MIB * 4 * (2 + states) <= torch.cuda.memory_allocated() < 4 * MIB * 4 * (2 + states) + MIB
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    optimizer.step()
    assert torch.cuda.max_memory_allocated() - held < MIB


def test_norms_are_clipped_many_tensors_at_a_time(books: Books) -> None:
    parameters = [torch.nn.Parameter(torch.zeros(MIB, device="cuda")) for _ in range(4)]
    for parameter in parameters:
        parameter.grad = torch.zeros(MIB, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    assert torch.nn.utils.clip_grad_norm_(parameters, 1.0).is_cuda
    assert torch.cuda.max_memory_allocated() - held < 16 * 512


@pytest.mark.parametrize(("decoupled", "mine"), [(1, torch.optim.AdamW), (0, torch.optim.Adam)])
def test_the_fused_kernel_computes_adam_beside_the_meter(decoupled: int, mine: Any) -> None:
    torch.manual_seed(0)
    start, gradient = torch.randn(64), torch.randn(64)
    expected = torch.nn.Parameter(start.clone())
    optimizer = mine([expected], lr=0.1, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    with TorchMeter("cpu", trace=True) as meter, launching.on(launching.Device(meter, VirtualCard(), True, note=print)):
        kernel = kernels.extensions()["fused_adam"].multi_tensor_adam
        parameter, first, second = start.clone(), torch.zeros(64), torch.zeros(64)
        meter.begin()
        for step in (1, 2, 3):
            lists = [[gradient], [parameter], [first], [second]]
            kernel(65536, None, lists, 0.1, 0.9, 0.95, 1e-8, step, decoupled, 1, 0.1)
        reading = meter.end()
    for _ in range(3):
        expected.grad = gradient.clone()
        optimizer.step()
    torch.testing.assert_close(parameter, expected.detach())
    assert (reading.op_launches, reading.device_peak_bytes) == (3, reading.device_retained_bytes)


def test_an_extension_without_a_stand_in_is_the_releases_own() -> None:
    assert "async_io" not in kernels.extensions()


@pytest.mark.parametrize(
    "decide", [lambda p: p.any(), lambda p: (p != 0).all(), lambda p: bool((p.grad.abs() > 0.5).any())]
)
def test_an_optimizers_decision_by_unknown_values_is_true_and_its_place_is_said(decide: Any, books: Books) -> None:
    parameter = torch.nn.Parameter(torch.randn(MIB, device="cuda"))
    parameter.grad = torch.randn(MIB, device="cuda")
    optimizer = Deciding([parameter], decide)
    held = torch.cuda.memory_allocated()
    optimizer.step()
    assert torch.cuda.memory_allocated() - held == 4 * MIB
    (note,) = books.notes
    assert note.startswith("the optimizer decides by values, which sim does not have, and was told true. At ")
    assert "test_optimizers.py:" in note


def test_a_models_decision_within_a_closure_is_refused(books: Books) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.any() else -x

    parameter = torch.nn.Parameter(torch.randn(4, device="cuda"))
    optimizer = Deciding([parameter], lambda p: p.any())
    with pytest.raises(SimulationError, match="data-dependent decision"):
        optimizer.step(lambda: Model()(torch.randn(4, device="cuda")))
