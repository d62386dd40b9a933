"""Flash attention's operators on a CPU, for torch's context parallelism."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from vgpu.device import ring_attention  # noqa: E402

aten = torch.ops.aten


@pytest.mark.parametrize("heads_of_keys", [4, 2], ids=["as many heads", "grouped queries"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_its_output_and_gradients_are_those_of_scores_that_are_written_out(heads_of_keys: int, is_causal: bool) -> None:
    torch.manual_seed(0)
    heads = (4, heads_of_keys, heads_of_keys)
    given = [torch.randn(2, count, 6, 8, dtype=torch.float64, requires_grad=True) for count in heads]
    out, rows, *_ = aten._scaled_dot_product_flash_attention(*given, 0.0, is_causal)
    query, *others = given
    key, value = (one.repeat_interleave(4 // heads_of_keys, dim=1) for one in others)
    scores = query @ key.transpose(-1, -2) / 8**0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
    expected = scores.softmax(-1) @ value
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(rows, scores.logsumexp(-1), check_dtype=False)
    gradient = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(out, given, gradient), torch.autograd.grad(expected, given, gradient)
    )


def test_attention_of_whole_tensors_stays_as_it_is() -> None:
    attention = torch.nn.functional.scaled_dot_product_attention
    given = [torch.randn(1, 2, 4, 8) for _ in range(3)]
    with ring_attention.on_cpu():
        assert torch.equal(torch.nn.functional.scaled_dot_product_attention(*given), attention(*given))
    assert torch.nn.functional.scaled_dot_product_attention is attention
