"""flash_attn's stand-in: sizes by hand from its C++, numbers from plain attention."""

from __future__ import annotations

import importlib
import importlib.metadata
import itertools
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.device.books import Books  # noqa: E402
from vgpu.no_stand_in import NoStandInError  # noqa: E402
from vgpu.stand_ins import flash_release  # noqa: E402

KIB = 1024


def held_by(make: Any) -> tuple[Any, int, int]:
    """What ``make`` returns, the bytes that are held after it, and the most above before."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out = make()
    return out, torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before


def inputs(*shapes: tuple[int, ...], dtype: Any = torch.bfloat16) -> list[Any]:
    return [torch.randn(shape, dtype=dtype, device="cuda").requires_grad_() for shape in shapes]


def test_forward_holds_the_output_and_a_number_per_row_and_backward_its_accumulators(books: Books) -> None:
    from flash_attn import flash_attn_func

    q, k, v = inputs(*[(2, 100, 4, 64)] * 3)
    out, held, _ = held_by(lambda: flash_attn_func(q, k, v, causal=True))
    one = 2 * 100 * 4 * 64 * 2
    saved = 7 * 512 + 512  # 2 x 4 x 100 x 4 bytes, rounded up to 512; and the state of the generator
    assert held == one + saved
    upstream = torch.ones_like(out)
    _, held, peak = held_by(lambda: out.backward(upstream))
    accumulators = 2 * 4 * 128 * 4 + 2 * 128 * 4 * 64 * 4
    assert held == 3 * one - saved
    assert peak == 3 * one + accumulators


def test_grouped_queries_expand_the_gradients_of_keys_and_values(books: Books) -> None:
    from flash_attn import flash_attn_func

    q, k, v = inputs((1, 2048, 16, 128), (1, 2048, 2, 128), (1, 2048, 2, 128))
    out = flash_attn_func(q, k, v)
    upstream = torch.ones_like(out)
    _, held, peak = held_by(lambda: out.backward(upstream))
    large, small = 2048 * 16 * 128 * 2, 2048 * 2 * 128 * 2
    assert held == large + 2 * small - (16 * 2048 * 4 + 512)
    assert peak == large + 2 * small + 2 * large + 16 * 2048 * 4 + 2048 * 16 * 128 * 4


def test_sequences_one_behind_the_other_have_a_margin_each(books: Books) -> None:
    from flash_attn import flash_attn_varlen_func

    q, k, v = inputs(*[(3000, 8, 64)] * 3)
    bounds = torch.tensor([0, 1000, 2500, 3000], dtype=torch.int32, device="cuda")
    out, held, _ = held_by(lambda: flash_attn_varlen_func(q, k, v, bounds, bounds, 1500, 1500, causal=True))
    one = 3000 * 8 * 64 * 2
    assert held == one + 94 * KIB + 512  # 8 x 3000 x 4 bytes, rounded up to 512
    upstream = torch.ones_like(out)
    _, _, peak = held_by(lambda: out.backward(upstream))
    assert peak == 3 * one + 106 * KIB + (3000 + 3 * 128) * 8 * 64 * 4


def test_queries_keys_and_values_in_one_tensor_have_one_gradient(books: Books) -> None:
    from flash_attn import flash_attn_qkvpacked_func

    (qkv,) = inputs((2, 1024, 3, 8, 64))
    out = flash_attn_qkvpacked_func(qkv)
    out.backward(torch.ones_like(out))
    assert qkv.grad.shape == qkv.shape
    assert qkv.grad.is_cuda


def test_long_keys_of_few_queries_are_worked_on_in_parts(books: Books) -> None:
    from flash_attn import flash_attn_func

    (q,) = inputs((1, 64, 4, 64))
    k, v = inputs((1, 4096, 4, 64), (1, 4096, 4, 64))
    _, held, peak = held_by(lambda: flash_attn_func(q, k, v))
    # 4 blocks of 264 slots, and 16 blocks of keys: 16 parts fill the one wave best.
    assert peak - held == 16 * 4 * 64 * 4 + 16 * 4 * 64 * 64 * 4


def test_without_gradients_nothing_but_the_output_is_held(books: Books) -> None:
    from flash_attn import flash_attn_func

    q = torch.zeros(2, 1024, 8, 64, dtype=torch.bfloat16, device="cuda")
    assert held_by(lambda: flash_attn_func(q, q, q))[1] == 2 * 1024 * 8 * 64 * 2


def test_fp32_is_refused_as_by_the_kernel(books: Books) -> None:
    from flash_attn import flash_attn_func

    q = torch.zeros(1, 8, 1, 64, device="cuda")
    with pytest.raises(RuntimeError, match="only support fp16 and bf16"):
        flash_attn_func(q, q, q)


def plain(q: Any, k: Any, v: Any, causal: bool, window: tuple[int, int] = (-1, -1), softcap: float = 0.0) -> Any:
    """``(length, heads, size)``."""
    groups = q.shape[1] // k.shape[1]
    q, k, v = (t.double().transpose(0, 1) for t in (q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)))
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    for i, j in itertools.product(range(q.shape[1]), range(k.shape[1])):
        at = i + k.shape[1] - q.shape[1]
        if (causal and j > at) or (0 <= window[0] < at - j) or (0 <= window[1] < j - at):
            scores[:, i, j] = float("-inf")
    return (scores.softmax(-1) @ v).transpose(0, 1)


@pytest.mark.parametrize(
    "options",
    [{"causal": False}, {"causal": True}, {"causal": True, "window": (3, 0)}, {"causal": True, "softcap": 2.0}],
)
def test_on_the_cpu_it_is_plain_attention_with_its_gradients(meter: Any, options: dict[str, Any]) -> None:
    from flash_attn import flash_attn_func

    q, k, v = inputs((2, 7, 4, 12), (2, 9, 2, 12), (2, 9, 2, 12), dtype=torch.float16)
    renamed = {"window_size" if name == "window" else name: value for name, value in options.items()}
    out = flash_attn_func(q, k, v, **renamed)
    mine = torch.autograd.grad(out.float().pow(2).sum(), (q, k, v))
    expected = torch.stack([plain(*each, **options) for each in zip(q, k, v)])
    theirs = torch.autograd.grad(expected.pow(2).sum(), (q, k, v))
    torch.testing.assert_close(out.double(), expected, atol=3e-3, rtol=3e-3)
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)


def test_on_the_cpu_sequences_do_not_see_each_other(meter: Any) -> None:
    from flash_attn import flash_attn_varlen_func

    q, k, v = inputs((8, 4, 16), (8, 4, 16), (8, 4, 16), dtype=torch.float16)
    bounds = torch.tensor([0, 5, 8], dtype=torch.int32)
    out = flash_attn_varlen_func(q, k, v, bounds, bounds, 5, 5, causal=True)
    mine = torch.autograd.grad(out.float().pow(2).sum(), (q, k, v))
    expected = torch.cat([plain(q[a:b], k[a:b], v[a:b], True) for a, b in ((0, 5), (5, 8))])
    theirs = torch.autograd.grad(expected.pow(2).sum(), (q, k, v))
    torch.testing.assert_close(out.double(), expected, atol=3e-3, rtol=3e-3)
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)


def test_on_the_cpu_backward_drops_what_forward_dropped(meter: Any) -> None:
    from flash_attn import flash_attn_func

    q = torch.zeros(1, 4, 1, 8, dtype=torch.float16)
    v = torch.eye(4, 8, dtype=torch.float16)[None, :, None].requires_grad_()
    out = flash_attn_func(q, q, v, dropout_p=0.5)
    kept = out[0, :, 0, :4] > 0  # row i, key j
    assert kept.any()
    assert not kept.all()
    out.sum().backward()
    torch.testing.assert_close(v.grad[0, :, 0, 0].float(), kept.sum(0) * 0.5)


def test_padding_comes_off_and_on_again(meter: Any) -> None:
    from flash_attn.bert_padding import pad_input, unpad_input

    x = torch.randn(2, 3, 4, 5, requires_grad=True)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    tokens, indices, bounds, longest, *used = unpad_input(x, mask)
    assert (bounds.tolist(), longest, indices.tolist()) == ([0, 2, 3], 2, [0, 1, 3])
    assert [each.tolist() for each in used] == ([[2, 1]] if flash_release.counts_used() else [])
    again = pad_input(tokens, indices, 2, 3)
    again.sum().backward()
    expected = mask[..., None, None].expand_as(x)
    torch.testing.assert_close(again, x * expected)
    torch.testing.assert_close(x.grad, expected.float())


@pytest.mark.parametrize(
    ("transformers", "values", "release"),
    [("4.34.0", 4, "2.6.3"), ("4.46.3", 4, "2.6.3"), ("4.47.0", 5, "2.8.3"), ("5.6.0", 5, "2.8.3"), ("", 5, "2.8.3")],
)
def test_padding_comes_off_in_as_many_values_as_in_the_day_of_the_stack(
    meter: Any, monkeypatch: pytest.MonkeyPatch, transformers: str, values: int, release: str
) -> None:
    from flash_attn.bert_padding import unpad_input

    monkeypatch.setattr(flash_release, "RELEASE", flash_release.release_for(transformers))
    assert release == flash_release.RELEASE
    assert len(unpad_input(torch.randn(2, 3, 4), torch.tensor([[1, 1, 0], [1, 0, 0]]))) == values


def test_padding_has_the_functions_of_einops_that_the_package_imports_there(meter: Any) -> None:
    pytest.importorskip("einops")
    from flash_attn.bert_padding import rearrange

    assert rearrange(torch.ones(2, 3), "b s -> (b s)").shape == (6,)


def test_a_gather_has_the_gradient_of_its_own_rows(meter: Any, tmp_path: Any) -> None:
    from flash_attn.utils.distributed import all_gather, all_reduce, reduce_scatter

    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        for collective in (all_gather, all_reduce, reduce_scatter):
            rows = torch.arange(6.0).reshape(3, 2).requires_grad_()
            out = collective(rows * 2, None)
            out.sum().backward()
            torch.testing.assert_close(out, rows * 2)
            torch.testing.assert_close(rows.grad, torch.full((3, 2), 2.0))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotation_turns_back_in_backward(meter: Any, interleaved: bool) -> None:
    from flash_attn.layers.rotary import apply_rotary_emb

    angles = torch.rand(5, 3)
    x = torch.randn(2, 5, 1, 8, requires_grad=True)
    out = apply_rotary_emb(x, angles.cos(), angles.sin(), interleaved)
    torch.testing.assert_close(out.norm(), x.norm())
    assert not torch.allclose(out[..., :6], x[..., :6])
    assert torch.equal(out[..., 6:], x[..., 6:])
    (back,) = torch.autograd.grad(out, x, out.detach())
    torch.testing.assert_close(back, x.detach())


def test_models_that_cache_their_rotation_find_its_class(books: Books) -> None:
    from flash_attn.layers.rotary import RotaryEmbedding

    rotation = RotaryEmbedding(8, device="cuda")
    rotation._update_cos_sin_cache(5, device="cuda", dtype=torch.bfloat16)
    assert rotation._cos_cached.shape == (5, 4)


def test_a_module_rotates_queries_and_keys_in_place_and_no_values(books: Books) -> None:
    from flash_attn.layers.rotary import RotaryEmbedding

    rotation = RotaryEmbedding(64, device="cuda")
    rotation(inputs((2, 16, 3, 4, 64))[0] * 1)
    (packed,) = inputs((2, 16, 3, 4, 64))
    packed = packed * 1
    out, held, peak = held_by(lambda: rotation(packed))
    assert (held, peak, out.shape) == (0, 0, packed.shape)
    gradient = torch.ones_like(out)
    out.backward(gradient)


@pytest.mark.parametrize("form", ["packed", "grouped", "strided", "without queries"])
def test_packed_heads_are_rotated_as_each_alone(meter: Any, form: str) -> None:
    from flash_attn.layers.rotary import apply_rotary_emb, apply_rotary_emb_kv_, apply_rotary_emb_qkv_

    angles = torch.rand(5, 3)
    cos, sin = angles.cos(), angles.sin()
    heads = (4, 2, 2) if form == "grouped" else (2, 2, 2)
    q, k, v = (torch.randn(2, 5, count, 8) for count in heads)
    expected = [apply_rotary_emb(q, cos, sin), apply_rotary_emb(k, cos, sin), v]
    leaf = (torch.cat((q, k, v), 2) if form == "grouped" else torch.stack((q, k, v), 2)).requires_grad_()
    packed = leaf * 1
    if form == "grouped":
        parts = apply_rotary_emb_qkv_(packed, cos, sin, num_heads_q=4).split(heads, 2)
    elif form == "without queries":
        parts = (expected[0], *apply_rotary_emb_kv_(packed[:, :, 1:], cos, sin).unbind(2))
    else:
        packed = packed.transpose(0, 1).contiguous().transpose(0, 1) if form == "strided" else packed
        parts = apply_rotary_emb_qkv_(packed, cos, sin).unbind(2)
    for part, one in zip(parts, expected):
        torch.testing.assert_close(part, one)
    parts = parts[form == "without queries" :]
    (back,) = torch.autograd.grad(parts, leaf, [part.detach().clone() for part in parts])
    given = leaf.detach().clone()
    if form == "without queries":
        given[:, :, 0] = 0
    torch.testing.assert_close(back, given)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"reduction": "sum"}])
def test_the_loss_is_torchs_cross_entropy(meter: Any, options: dict[str, Any]) -> None:
    from flash_attn.losses.cross_entropy import CrossEntropyLoss

    logits = torch.randn(6, 11, requires_grad=True)
    labels = torch.tensor([1, 2, -100, 4, 5, 10])
    mine, theirs = CrossEntropyLoss(**options)(logits, labels), torch.nn.CrossEntropyLoss(**options)(logits, labels)
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(torch.autograd.grad(mine, logits), torch.autograd.grad(theirs, logits))


@pytest.mark.parametrize("is_rms_norm", [True, False])
def test_norms_of_the_residual_stream_are_torchs(meter: Any, is_rms_norm: bool) -> None:
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    readings = []
    x, residual, weight, bias = (torch.randn(shape) for shape in [(2, 5, 8), (2, 5, 8), (8,), (8,)])
    for mine in (True, False):
        inputs = [tensor.clone().requires_grad_() for tensor in (x, residual, weight, bias)]
        if mine:
            out, added = layer_norm_fn(
                *(inputs[i] for i in (0, 2, 3, 1)), eps=1e-5, prenorm=True, is_rms_norm=is_rms_norm
            )
        else:
            added = inputs[0] + inputs[1]
            norm = torch.nn.functional.rms_norm if is_rms_norm else torch.nn.functional.layer_norm
            out = norm(added, (8,), inputs[2], eps=1e-5) + inputs[3]
        (out.square().sum() + added.sum()).backward()
        readings.append([out.detach(), *(tensor.grad for tensor in inputs)])
    for one, other in zip(*readings):
        torch.testing.assert_close(one, other)


def test_a_norm_keeps_its_input_and_a_number_per_row(books: Books) -> None:
    from flash_attn.ops.triton.layer_norm import RMSNorm

    (x,) = inputs((4, 256, 1024))
    norm = RMSNorm(1024, device="cuda", dtype=torch.bfloat16)
    out, held, _ = held_by(lambda: norm(x))
    assert held == x.nbytes + 4 * 256 * 4
    upstream = torch.ones_like(out)
    _, _, peak = held_by(lambda: out.backward(upstream))
    assert peak == x.nbytes + 8 * 132 * 1024 * 4 + 1024 * 4 + 1024 * 2


def test_frameworks_see_it_while_the_card_is_there(books: Books) -> None:
    utils = pytest.importorskip("transformers.utils")
    assert utils.is_flash_attn_2_available()
    assert importlib.metadata.version("flash-attn") == importlib.metadata.version("flash_attn") == flash_release.RELEASE
    assert "flash_attn" in importlib.metadata.packages_distributions()


def test_what_has_no_stand_in_is_said_in_one_line(books: Books) -> None:
    from flash_attn.flash_attn_interface import _flash_attn_forward
    from flash_attn.models.gpt import GPTLMHeadModel

    with pytest.raises(NoStandInError, match="^flash_attn.flash_attn_interface._flash_attn_forward has no stand-in: "):
        _flash_attn_forward()
    with pytest.raises(NoStandInError, match="^flash_attn.models.gpt.GPTLMHeadModel has no stand-in: "):
        GPTLMHeadModel()


def test_nothing_is_left_behind() -> None:
    assert "flash_attn" not in sys.modules
    assert importlib.util.find_spec("flash_attn") is None
