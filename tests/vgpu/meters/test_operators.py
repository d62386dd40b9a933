"""What operators count."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils import flop_counter  # noqa: E402

from vgpu.meters import operators  # noqa: E402

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_flash_attention.default
BACKWARD = aten._scaled_dot_product_flash_attention_backward.default


def inputs(heads: int) -> list[Any]:
    """Queries of 4 heads; keys and values of ``heads``."""
    return [torch.empty(2, h, n, 16, device="meta") for h, n in ((4, 10), (heads, 12), (heads, 12))]


def test_attention_counts_what_torch_counts() -> None:
    query, key, value = inputs(4)
    registry = flop_counter.flop_registry
    forward = registry[FORWARD.overloadpacket](query, key, value, out_val=query)
    assert operators.traits(FORWARD).flops(query, key, value, out_val=query) == forward
    backward = registry[BACKWARD.overloadpacket](query, query, key, value, out_val=query)
    assert operators.traits(BACKWARD).flops(query, query, key, value, out_val=query) == backward


def test_grouped_queries_count_every_head_of_the_queries() -> None:
    query, key, value = inputs(2)
    _, whole_key, whole_value = inputs(4)
    for func, first in ((FORWARD, ()), (BACKWARD, (query,))):
        grouped = operators.traits(func).flops(*first, query, key, value, out_val=query)
        assert grouped == operators.traits(func).flops(*first, query, whole_key, whole_value, out_val=query)


def test_the_kernel_of_the_cpu_counts_as_that_of_a_gpu() -> None:
    query, key, value = inputs(4)
    cpu = operators.traits(aten._scaled_dot_product_flash_attention_for_cpu.default)
    assert cpu.flops(query, key, value) == operators.traits(FORWARD).flops(query, key, value)


def test_an_operator_with_a_kernel_of_its_own_is_not_made_of_others() -> None:
    composite = {
        func: operators.traits(func).is_composite for func in (aten.linear.default, aten.silu_backward.default)
    }
    assert list(composite.values()) == [True, False]


@pytest.mark.skipif(not hasattr(aten.addmm, "dtype_out"), reason="torch before 2.8 has no such products")
def test_a_product_in_another_dtype_counts_as_one_in_its_own() -> None:
    a, b, out = (torch.empty(*shape, device="meta") for shape in ((2, 3), (3, 4), (2, 4)))
    expected = operators.traits(aten.addmm.default).flops(out, a, b, out_val=out)
    assert operators.traits(aten.addmm.dtype_out).flops(out, a, b, torch.float32, out=out, out_val=out) == expected
    assert operators.traits(aten.mm.dtype).flops(a, b, out_dtype=torch.float32, out_val=out) == expected
