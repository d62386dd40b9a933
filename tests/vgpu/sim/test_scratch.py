"""Kernels' own memory shows in the peak, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.sim import Simulation, scratch  # noqa: E402

aten = torch.ops.aten
functional = torch.nn.functional

BATCH, HEADS, ROWS, SIZE = 2, 8, 300, 80
PADDED_ROWS, PADDED_SIZE = 384, 96  # multiples of 128 and of 32


def _rule(name: str) -> Any:
    return scratch.ON_GPU[getattr(aten, name).default]


def _tensor(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta")


def test_flash_attention_sums_the_querys_gradient_in_fp32() -> None:
    query = _tensor(BATCH, HEADS, ROWS, SIZE)
    found = _rule("_scaled_dot_product_flash_attention_backward")(query, query, query, query)
    assert found == ((BATCH * HEADS * PADDED_ROWS * 4, BATCH * HEADS * PADDED_ROWS * PADDED_SIZE * 4),)


def test_flash_attention_has_gradients_of_every_querys_head_where_several_share_a_key() -> None:
    query, key = _tensor(BATCH, HEADS, ROWS, SIZE), _tensor(BATCH, 2, ROWS, SIZE)
    (together,) = _rule("_scaled_dot_product_flash_attention_backward")(query, query, key, key)
    assert together[2:] == (BATCH * ROWS * HEADS * SIZE * 2,) * 2


def test_packed_flash_attention_has_rows_before_heads() -> None:
    query = _tensor(BATCH, HEADS, ROWS, SIZE)
    packed = query.transpose(1, 2)
    assert _rule("_flash_attention_backward")(packed, packed, packed, packed) == _rule(
        "_scaled_dot_product_flash_attention_backward"
    )(query, query, query, query)


def test_memory_efficient_attention_sums_by_blocks_of_64() -> None:
    query = _tensor(BATCH, HEADS, ROWS, SIZE)
    found = _rule("_scaled_dot_product_efficient_attention_backward")(query, query, query, query)
    blocks = 5 * 2
    assert found == ((BATCH * HEADS * ROWS * 4, BATCH * HEADS * blocks * (64 * 64 * 4 + 16)),)


def test_memory_efficient_attention_multiplies_output_and_gradient_first_in_fp32() -> None:
    query = _tensor(BATCH, HEADS, ROWS, SIZE, dtype=torch.float32)
    before, _ = _rule("_scaled_dot_product_efficient_attention_backward")(query, query, query, query)
    assert before == (BATCH * HEADS * ROWS * SIZE * 4, BATCH * HEADS * ROWS * 4)


@pytest.mark.parametrize(("words", "segments"), [(1000, 1000), (50_000, 8192)])
def test_an_embedding_sums_ten_rows_at_a_time_in_fp32(words: int, segments: int) -> None:
    ids = _tensor(8, 1024, dtype=torch.int64)
    (together,) = _rule("embedding_dense_backward")(_tensor(8, 1024, 64), ids, words, -1, False)
    assert together[-1] == (819 + segments) * 64 * 4
    assert together[:3] == (8192 * 8,) * 3


def test_few_indices_of_an_embedding_are_not_sorted() -> None:
    assert (
        _rule("embedding_dense_backward")(_tensor(3072, 64), _tensor(3072, dtype=torch.int64), 50_000, -1, False) == ()
    )


def _backward_peak(kernels: str, function: Any) -> int:
    """Of the backward of a function of 1 MiB in fp32."""
    with Simulation(kernels=kernels) as simulation:
        scores = torch.empty(4, 256, 256, device=Simulation.device, requires_grad=True)
        out = function(scores, dim=-1)
        gradient = torch.empty_like(out)
        simulation.meter.begin()
        torch.autograd.grad(out, (scores,), gradient)
        return simulation.meter.end().device_peak_bytes


def test_softmax_multiplies_its_result_with_the_gradient_first() -> None:
    assert _backward_peak("gpu", torch.softmax) - _backward_peak("cpu", torch.softmax) == 4 * 256 * 256 * 4


def test_log_softmax_makes_no_product() -> None:
    assert _backward_peak("gpu", torch.log_softmax) == _backward_peak("cpu", torch.log_softmax)


def _peak(kernels: str) -> tuple[int, int]:
    """Of the backward of attention, with what is held after it."""
    with Simulation(kernels=kernels) as simulation:
        query, key, value = (
            torch.empty(1, 4, 1024, 64, dtype=torch.bfloat16, device=Simulation.device, requires_grad=True)
            for _ in range(3)
        )
        out = functional.scaled_dot_product_attention(query, key, value)
        simulation.meter.begin()
        gradients = torch.autograd.grad(out, (query, key, value), torch.empty_like(out))
        reading = simulation.meter.end()
        del gradients
    return reading.device_peak_bytes, reading.device_retained_bytes


def _attention_peak(*, key_heads: int = 1, head_size: int = 64, dtype: torch.dtype = torch.bfloat16, **how: Any) -> int:
    """Of one call with 4 heads of queries and 1,024 tokens."""
    with Simulation(kernels="gpu") as simulation:
        query, key, value = (
            torch.empty(1, heads, 1024, head_size, dtype=dtype, device=Simulation.device)
            for heads in (4, key_heads, key_heads)
        )
        if how.pop("masked", False):
            how["attn_mask"] = torch.zeros(1, 1, 1024, 1024, dtype=dtype, device=Simulation.device)
        simulation.meter.begin()
        functional.scaled_dot_product_attention(query, key, value, **how)
        return simulation.meter.end().device_peak_bytes


_SCORES = 4 * 1024 * 1024 * 4  #: of all heads in fp32


@pytest.mark.parametrize("how", [{"head_size": 512}, {"masked": True}, {"dtype": torch.float32}])
def test_groups_of_heads_write_scores_where_flash_attention_does_not_take_them(how: dict[str, Any]) -> None:
    grouped, repeated = _attention_peak(enable_gqa=True, **how), _attention_peak(key_heads=4, **how)
    assert grouped > _SCORES
    assert grouped > repeated + _SCORES / 2  # the caller's repeats, which the memory-efficient kernel takes


def test_flash_attention_takes_groups_of_heads_where_they_are_asked_for() -> None:
    assert _attention_peak(enable_gqa=True) < _SCORES
    assert _attention_peak() > _SCORES  # one head of keys for all, which only the scores are broadcast for


def test_the_peak_of_backward_has_the_kernels_memory_on_a_gpu_alone() -> None:
    on_gpu, held_on_gpu = _peak("gpu")
    on_cpu, held_on_cpu = _peak("cpu")
    assert held_on_gpu == held_on_cpu
    own = on_gpu - on_cpu - (1024 * 4 * 64 * 4 + 1024 * 4 * 4)
    assert 0 <= own <= 32  # the generator's state, which that kernel has
