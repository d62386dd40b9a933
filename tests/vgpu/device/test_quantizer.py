"""DeepSpeed's quantizer, as ZeRO++ calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")

from vgpu.device import quantizer  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.device.card import VirtualCard  # noqa: E402
from vgpu.device.launching import Device, on  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402

MIB = 1 << 20


@pytest.fixture
def ops() -> Iterator[Any]:
    """On a rank, where torch computes."""
    with on(Device(TorchMeter(device="cpu"), VirtualCard(), computes=True, note=print)):
        yield quantizer.extension()


def test_in_sim_the_release_loads_it_and_it_holds_bytes_and_scales(books: Books) -> None:
    from deepspeed.ops.op_builder import QuantizerBuilder

    loaded = QuantizerBuilder().load()
    weight = torch.zeros(MIB, dtype=torch.float16, device="cuda")
    before = torch.cuda.memory_allocated()
    codes, scales = loaded.quantize(weight, 1024, 8, loaded.Symmetric)
    assert torch.cuda.memory_allocated() - before == MIB + 4 * 1024
    assert loaded.dequantize(codes, scales, scales.numel(), 8, loaded.Symmetric).dtype is torch.float16


@pytest.mark.parametrize(("bits", "steps"), [(8, 256), (4, 16)])
@pytest.mark.parametrize("kind", ["Symmetric", "Asymmetric"])
def test_values_come_back_within_half_a_step_but_for_the_largest(ops: Any, bits: int, steps: int, kind: str) -> None:
    values = torch.linspace(-1, 1, 64).half().repeat(4)
    codes, scales = ops.quantize(values, 4, bits, kind)
    back = ops.dequantize(codes, scales, 4, bits, kind)
    error = (back - values).abs().float()
    assert codes.numel() == values.numel() * bits // 8
    assert error[values <= 1 - 1 / steps].max() <= 1.02 / steps  # fp16 rounds as well
    assert error.max() <= 2.02 / steps  # the largest values have no code of their own


def test_what_nodes_exchange_is_ordered_by_device_and_then_by_node(ops: Any) -> None:
    values = torch.arange(1.0, 9).half().repeat_interleave(16)
    _, scales = ops.swizzle_quant(values, 8, 4, ops.Symmetric, 1, 2, 4)
    assert (scales.view(-1) * 8).tolist() == [1, 5, 2, 6, 3, 7, 4, 8]


def test_what_devices_sent_is_added(ops: Any) -> None:
    values = torch.linspace(-1, 1, 64).half()
    codes, scales = ops.quantize(values.repeat(4), 8, 8, ops.Symmetric)
    total = ops.dequantize(*ops.quantized_reduction(codes, scales, 8, 2, 8, ops.Symmetric, 4), 2, 8, ops.Symmetric)
    torch.testing.assert_close(total.float(), 4 * values.float(), atol=0.1, rtol=0)
