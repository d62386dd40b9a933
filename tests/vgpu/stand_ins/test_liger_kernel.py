"""liger_kernel's stand-in: sizes by hand from its source, numbers from torch and transformers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.ledger import DEVICE  # noqa: E402

MIB = 1 << 20


def test_a_norm_keeps_its_input_and_a_number_per_row(books: Books) -> None:
    from liger_kernel.transformers import LigerRMSNorm

    norm = LigerRMSNorm(512).to("cuda", torch.bfloat16)
    x = torch.randn(1024, 512, dtype=torch.bfloat16, device="cuda").requires_grad_()
    before = books.ledger.live[DEVICE]
    norm(x)
    assert books.ledger.live[DEVICE] - before == MIB + 4 * 1024


def test_the_logits_are_made_a_part_at_a_time_and_the_gradients_in_forward(books: Books) -> None:
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    x = torch.randn(4096, 1024, dtype=torch.bfloat16, device="cuda").requires_grad_()
    weight = torch.nn.Parameter(torch.randn(32768, 1024, dtype=torch.bfloat16, device="cuda"))
    labels = torch.zeros(4096, dtype=torch.long, device="cuda")
    torch.mm(x.detach(), x.detach().t())  # makes the workspace of cuBLAS
    torch.cuda.reset_peak_memory_stats()
    allocated = torch.cuda.memory_allocated()
    loss = LigerFusedLinearCrossEntropyLoss()(weight, x, labels)
    gradients = 8 * MIB + 64 * MIB
    assert torch.cuda.memory_allocated() - allocated == gradients + 512  # the loss
    # 32 parts of 128 tokens; above the gradients the product of a part and its fp32 copy, and the part's logits.
    most = torch.cuda.max_memory_allocated() - allocated
    assert gradients + 64 * MIB + 128 * MIB + 8 * MIB <= most < gradients + (64 + 128 + 8 + 3) * MIB
    loss.backward()
    assert x.grad.shape == x.shape


def test_the_fused_loss_says_of_which_releases_its_sizes_are(books: Books) -> None:
    from liger_kernel.transformers.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyLoss
    from liger_kernel.transformers.rms_norm import LigerRMSNorm

    x = torch.randn(64, 32, dtype=torch.bfloat16, device="cuda")
    LigerRMSNorm(32).to("cuda", torch.bfloat16)(x)
    assert books.notes == []
    for _ in range(2):
        LigerFusedLinearCrossEntropyLoss()(
            torch.randn(128, 32, dtype=torch.bfloat16, device="cuda"),
            x,
            torch.zeros(64, dtype=torch.long, device="cuda"),
        )
    (note,) = books.notes
    assert note.startswith("liger_kernel is not installed: its fused loss has the sizes of Liger-Kernel 0.6.1 to 0.8.")


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_on_the_cpu_a_model_has_the_same_loss_and_gradients(meter: Any, family: str) -> None:
    transformers = pytest.importorskip("transformers")
    from liger_kernel.transformers import _apply_liger_kernel_to_instance

    config = transformers.AutoConfig.for_model(
        family,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        vocab_size=100,
    )
    model = transformers.AutoModelForCausalLM.from_config(config).train()
    tokens = torch.randint(100, (2, 12))
    readings = []
    modeling = __import__(f"transformers.models.{family}.modeling_{family}", fromlist=["x"])
    before = dict(vars(modeling))
    for _ in range(2):
        model.zero_grad()
        out = model(input_ids=tokens, labels=tokens)
        out.loss.backward()
        readings.append((out.loss.detach(), [p.grad.clone() for p in model.parameters()], out.logits))
        _apply_liger_kernel_to_instance(model=model)
    vars(modeling).update(before)
    (plain, theirs, logits), (fused, mine, none) = readings
    assert logits is not None
    assert none is None
    torch.testing.assert_close(fused, plain)
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_the_number_of_tokens_in_a_part_is_a_power_of_two() -> None:
    from vgpu.stand_ins.liger_ops import part_of

    assert part_of(4096 * 4, 32000, 4096) == 2048
    assert part_of(1000, 152_064, 896) == 8


def test_frameworks_see_it_and_other_families_are_refused(books: Books) -> None:
    utils = pytest.importorskip("transformers.utils")
    from liger_kernel.transformers import _apply_liger_kernel

    assert utils.is_liger_kernel_available()
    with pytest.raises(NotImplementedError, match="gemma2 have no stand-in"):
        _apply_liger_kernel("gemma2")
    _apply_liger_kernel("gpt2")  # the package has none either, and says nothing


def test_trainers_that_import_its_losses_are_imported_all_the_same(books: Books) -> None:
    from liger_kernel.chunked_loss import LigerFusedLinearDPOLoss

    with pytest.raises(NotImplementedError, match="use_liger_loss"):
        LigerFusedLinearDPOLoss(beta=0.1)
