"""Operators that torch takes apart by the tensor's device keep for backward what a GPU keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from vgpu.sim import Simulation  # noqa: E402

functional = torch.nn.functional
aten = torch.ops.aten

ROWS, COLUMNS = 1024, 512
ELEMENTS = ROWS * COLUMNS


def held(forward: Callable[[Any], Any], dtype: Any = torch.float32, kernels: str = "gpu") -> int:
    """Bytes that a forward leaves beside the leaf: its output, and what backward needs."""
    with Simulation(kernels=kernels) as simulation:
        tensor = torch.empty(ROWS, COLUMNS, dtype=dtype, device=Simulation.device, requires_grad=True)
        simulation.meter.begin()
        out = forward(tensor * 2)
        found = simulation.meter.end().device_retained_bytes - ELEMENTS * dtype.itemsize
        del out
    return int(found)


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def run(function: Callable[[Any], Any], dtype: Any = torch.float32) -> list[str]:
    """The operators of a forward and backward, views and sums apart."""
    with Simulation():
        tensor = torch.empty(ROWS, COLUMNS, dtype=dtype, device=Simulation.device, requires_grad=True)
        with Seen() as seen:
            function(tensor).backward(torch.empty((), device=Simulation.device).expand(ROWS, COLUMNS).to(dtype))
    return [name for name in seen.names if name not in ("empty", "expand", "detach", "_to_copy")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_keeps_one_byte_of_each_element_on_a_gpu(dtype: Any) -> None:
    assert held(lambda tensor: functional.dropout(tensor, 0.1), dtype) == ELEMENTS * (dtype.itemsize + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_keeps_noise_in_the_tensors_dtype_on_a_cpu(dtype: Any) -> None:
    dropped = held(lambda tensor: functional.dropout(tensor, 0.1), dtype, kernels="cpu")
    assert dropped == ELEMENTS * 2 * dtype.itemsize


def test_dropout_is_one_kernel_each_way_on_a_gpu() -> None:
    assert run(lambda tensor: functional.dropout(tensor, 0.1)) == ["native_dropout", "native_dropout_backward"]


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.1, False)])
def test_dropout_that_drops_nothing_is_its_input(p: float, training: bool) -> None:
    with Simulation():
        tensor = torch.empty(ROWS, device=Simulation.device)
        assert functional.dropout(tensor, p, training) is tensor


def test_attention_whose_scores_are_written_out_drops_them_as_on_a_gpu() -> None:
    """Three dimensions, which no fused kernel takes."""
    with Simulation(), Seen() as seen:
        query = torch.empty(2, 64, 32, device=Simulation.device, requires_grad=True)
        functional.scaled_dot_product_attention(query, query, query, dropout_p=0.1)
    assert "native_dropout" in seen.names
    assert "bernoulli_" not in seen.names


def test_softmax_of_fp16_in_fp32_needs_no_copy_on_a_gpu() -> None:
    def softmax(tensor: Any) -> Any:
        return functional.softmax(tensor, -1, dtype=torch.float32)

    assert "_to_copy" not in names_of(softmax, torch.float16)
    assert "_to_copy" in names_of(softmax, torch.bfloat16)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_fp16_keeps_its_dtype(name: str) -> None:
    with Simulation():
        tensor = torch.empty(4, 4, dtype=torch.float16, device=Simulation.device)
        softmax = getattr(functional, name)
        assert softmax(tensor, -1).dtype == torch.float16
        assert softmax(tensor, -1, dtype=torch.float32).dtype == torch.float32


def names_of(forward: Callable[[Any], Any], dtype: Any) -> list[str]:
    with Simulation(), Seen() as seen:
        forward(torch.empty(4, 4, dtype=dtype, device=Simulation.device))
    return list(seen.names)


fused = pytest.mark.skipif(not hasattr(aten, "_fused_rms_norm_backward"), reason="torch before 2.9 has no such kernel")


@fused
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_keeps_its_input_and_a_number_for_each_row_on_a_gpu(dtype: Any) -> None:
    normed = held(lambda tensor: functional.rms_norm(tensor, (COLUMNS,)), dtype)
    assert normed == ELEMENTS * 2 * dtype.itemsize + ROWS * 4


@fused
def test_rms_norm_is_one_kernel_each_way_on_a_gpu() -> None:
    weight = torch.nn.Parameter(torch.empty(COLUMNS, device="meta"))
    norm = run(lambda tensor: functional.rms_norm(tensor, (COLUMNS,), weight))
    assert norm == ["_fused_rms_norm", "_fused_rms_norm_backward"]


@fused
def test_rms_norm_with_a_weight_of_another_dtype_is_torchs_own() -> None:
    weight = torch.nn.Parameter(torch.empty(COLUMNS, device="meta"))
    norm = run(lambda tensor: functional.rms_norm(tensor, (COLUMNS,), weight).to(tensor.dtype), torch.bfloat16)
    assert "_fused_rms_norm" not in norm


def test_nothing_of_it_is_left_after_a_simulation() -> None:
    with Simulation():
        pass
    with Seen() as seen:
        functional.dropout(torch.empty(4, device="meta"), 0.1)
        if hasattr(aten, "_fused_rms_norm_backward"):
            functional.rms_norm(torch.empty(4, 4, device="meta"), (4,))
    assert not {"native_dropout", "_fused_rms_norm"} & set(seen.names)


def test_a_spectrum_is_inverted_and_trained_though_its_windows_are_asked_for_zeros() -> None:
    with Simulation():
        window = torch.hann_window(64, device=Simulation.device)
        sound = torch.randn(2, 4096, device=Simulation.device, requires_grad=True)
        spectrum = torch.stft(sound, 64, window=window, return_complex=True)
        inverse = torch.istft(spectrum, 64, window=window, length=4096)
        assert inverse.shape == (2, 4096)
        inverse.sum().backward()
        assert sound.grad.shape == sound.shape
        unknown = torch.randn(2, device=Simulation.device)
        with pytest.raises(RuntimeError, match="compared by value"):
            torch.equal(unknown, unknown * 2)
