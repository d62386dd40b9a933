"""The kernel of each call of scaled dot product attention, by torch's own rules, and how calls are counted."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.ledger import DEVICE  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402
from vgpu.sim.attention_kernels import Call, kernel_on_gpu  # noqa: E402

A100, RTX_4090, V100 = (8, 0), (8, 9), (7, 0)


def kernel(
    capability: tuple[int, int] = A100,
    *,
    size: int = 64,
    value_size: int | None = None,
    heads: int = 4,
    key_heads: int = 4,
    keys: int = 16,
    dtype: torch.dtype = torch.bfloat16,
    trains: bool = True,
    **how: Any,
) -> str:
    def tensor(heads: int, rows: int, size: int) -> torch.Tensor:
        return torch.empty(2, heads, rows, size, dtype=dtype, device="meta", requires_grad=trains)

    tensors = {"query": tensor(heads, 16, size), "key": tensor(key_heads, keys, size)}
    call = Call(**tensors, value=tensor(key_heads, keys, value_size or size), **how)
    return str(kernel_on_gpu(call, capability))


MASK = torch.empty(16, 16, dtype=torch.bfloat16, device="meta")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, "flash"),
        ({"size": 20}, "flash"),
        ({"size": 256}, "flash"),
        ({"key_heads": 1, "enable_gqa": True}, "flash"),
        ({"mask": MASK}, "efficient: a mask is passed"),
        ({"size": 288}, "efficient: the head size is 288"),
        ({"size": 192, "value_size": 128}, "efficient: queries, keys and values differ in head size"),
        ({"keys": 32, "is_causal": True}, "efficient: it is causal, with fewer queries than keys"),
        ({"dtype": torch.float32}, "efficient: the tensors are float32"),
        ({"dtype": torch.float64}, "math: the tensors are float64"),
        ({"size": 20, "mask": MASK}, "math: a mask is passed"),
        ({"size": 20, "dtype": torch.float32}, "efficient: the tensors are float32"),
        ({"size": 18, "dtype": torch.float32}, "math: the tensors are float32"),
        ({"mask": MASK[:, :1].expand(16, 16)}, "math: a mask is passed"),
        ({"key_heads": 1}, "math: fewer heads of keys than of queries, without enable_gqa"),
    ],
)
def test_torch_picks_the_kernel_by_the_call(how: dict[str, Any], expected: str) -> None:
    assert kernel(**how) == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"mask": MASK}, "a mask is passed"),
        ({"size": 512}, "the head size is 512"),
        ({"dtype": torch.float32}, "the tensors are float32"),
    ],
)
def test_grouped_heads_go_to_the_math_kernel_where_flash_attention_does_not_take_them(
    how: dict[str, Any], expected: str
) -> None:
    takes_groups = torch.torch_version.TorchVersion(torch.__version__) >= (2, 14)
    assert kernel(key_heads=1, enable_gqa=True, **how) == f"{'efficient' if takes_groups else 'math'}: {expected}"


@pytest.mark.parametrize(
    ("card", "how", "expected"),
    [
        (V100, {"dtype": torch.float16}, "efficient: sm_70 has no flash attention"),
        (V100, {}, "math: sm_70 has no flash attention"),
        (RTX_4090, {"size": 192}, "flash"),
        (RTX_4090, {"size": 208}, "efficient: the head size is 208 on sm_89"),
        (RTX_4090, {"size": 208, "trains": False}, "flash"),
        (RTX_4090, {"size": 256}, "flash"),
        (RTX_4090, {"size": 256, "dropout": 0.1}, "efficient: the head size is 256 on sm_89"),
    ],
)
def test_torch_picks_the_kernel_by_the_card(card: tuple[int, int], how: dict[str, Any], expected: str) -> None:
    assert kernel(card, **how) == expected


def test_a_program_turns_kernels_off() -> None:
    with sdpa_kernel(SDPBackend.MATH):
        assert kernel() == "math: the program turned flash attention off"
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        assert kernel() == "efficient: the program turned flash attention off"
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
        kernel(mask=MASK)


def attend(**how: Any) -> None:
    query = torch.empty(1, 4, 16, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    functional.scaled_dot_product_attention(query, query, query, **how)


def test_calls_are_counted_by_kernel_in_each_phase() -> None:
    mask = torch.ones(16, 16, dtype=torch.bool)
    with Simulation() as simulation:
        simulation.meter.begin()
        query = torch.empty(1, 4, 16, 64, dtype=torch.bfloat16, device=Simulation.device)
        for _ in range(3):
            functional.scaled_dot_product_attention(query, query, query, is_causal=True)
        functional.scaled_dot_product_attention(query, query, query, attn_mask=mask.to(Simulation.device))
        reading = simulation.meter.end()
        simulation.meter.begin()
        later = simulation.meter.end()
    assert (reading.attention, later.attention) == ({"efficient: a mask is passed": 1, "flash": 3}, {})
    assert reading.folded_with(later).attention == reading.attention
    assert reading.folded_with(reading).attention == {"efficient: a mask is passed": 2, "flash": 6}


def test_the_card_decides(books: Books) -> None:
    books.card = dataclasses.replace(books.card, compute_capability=V100)
    query = torch.empty(1, 4, 512, 64, dtype=torch.bfloat16, device="cuda")
    before = books.max_allocated()
    functional.scaled_dot_product_attention(query, query, query)
    assert books.max_allocated() - before > 4 * 512 * 512 * 4  # the scores in fp32


@pytest.mark.parametrize(("width", "padded"), [(1024, False), (1021, True)])
def test_a_mask_that_is_not_aligned_is_copied_for_each_call(width: int, padded: bool) -> None:
    """Its rows begin at multiples of eight elements (`preprocess_mask`)."""
    with Simulation() as simulation:
        query, key = (
            torch.empty(1, 1, rows, 64, dtype=torch.bfloat16, device=Simulation.device, requires_grad=True)
            for rows in (1024, width)
        )
        mask = torch.zeros(1, 1, 1024, width, dtype=torch.bfloat16, device=Simulation.device)
        before = simulation.meter.ledger.live[DEVICE]
        out = functional.scaled_dot_product_attention(query, key, key, attn_mask=mask)
        copied = simulation.meter.ledger.live[DEVICE] - before - 2 * out.numel()
        assert (copied >= 2 * 1024 * 1024) == padded
