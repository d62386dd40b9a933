"""bitsandbytes' optimizers: sizes by hand from its source, steps near those of torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from harness.probe.meters.ledger import DEVICE, HOST  # noqa: E402
from harness.probe.virtual_gpu import Books  # noqa: E402

MIB = 1 << 20
MAPS = 2 * 256 * 4


def held_by_states(books: Books, name: str, elements: int) -> tuple[int, int]:
    """Bytes on the card and on the host that the first step adds."""
    import bitsandbytes

    parameter = torch.nn.Parameter(torch.zeros(elements, dtype=torch.bfloat16, device="cuda"))
    optimizer = getattr(bitsandbytes.optim, name)([parameter])
    parameter.grad = torch.zeros_like(parameter)
    before = {memory: books.ledger.live[memory] for memory in (DEVICE, HOST)}
    optimizer.step()
    assert optimizer.state[parameter]["step"] == 1
    return tuple(books.ledger.live[memory] - before[memory] for memory in (DEVICE, HOST))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("name", "elements", "on_card", "on_host"),
    [
        ("AdamW8bit", MIB, 2 * MIB + 2 * (MIB // 256) * 4 + MAPS, 0),
        ("Adam8bit", 5000, 2 * 5000 + 2 * 20 * 4 + MAPS, 0),
        ("AdamW8bit", 4095, 2 * 4095 * 4, 0),
        ("AdamW32bit", MIB, 8 * MIB, 0),
        ("Lion8bit", MIB, MIB + (MIB // 256) * 4 + MAPS, 0),
        ("PagedAdamW8bit", MIB, 2 * (MIB // 256) * 4 + MAPS, 2 * MIB),
        ("PagedAdamW32bit", MIB, 0, 8 * MIB),
        ("PagedAdamW32bit", 99_999, 8 * 99_999, 0),
    ],
)
def test_states_take_what_they_take_on_a_card(
    books: Books, name: str, elements: int, on_card: int, on_host: int
) -> None:
    assert held_by_states(books, name, elements) == (on_card, on_host)


@pytest.mark.parametrize(("name", "tolerance"), [("AdamW32bit", 1e-6), ("PagedAdamW32bit", 1e-6), ("AdamW8bit", 2e-2)])
def test_on_the_cpu_a_step_is_torchs(meter: Any, name: str, tolerance: float) -> None:
    import bitsandbytes

    start = torch.randn(64, 128)
    mine, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizers = [
        getattr(bitsandbytes.optim, name)([mine], lr=0.01, weight_decay=0.1),
        torch.optim.AdamW([theirs], lr=0.01, weight_decay=0.1),
    ]
    for _ in range(4):
        gradient = torch.randn(64, 128)
        for parameter, optimizer in zip((mine, theirs), optimizers):
            parameter.grad = gradient.clone()
            optimizer.step()
    moved = (theirs - start).detach().norm()
    assert float((mine - theirs).detach().norm() / moved) < tolerance


def test_the_trainers_8_bit_optimizer_is_found(books: Books) -> None:
    trainer = pytest.importorskip("transformers")
    arguments = trainer.TrainingArguments("out", optim="paged_adamw_8bit", report_to=[])
    kind, options = trainer.Trainer.get_optimizer_cls_and_kwargs(arguments)
    assert "bitsandbytes" in str(kind)
    assert kind([torch.nn.Parameter(torch.zeros(3, device="cuda"))], **options).is_paged


def test_embeddings_are_excepted_by_module(books: Books) -> None:
    from bitsandbytes.optim import AdamW, GlobalOptimManager

    layer = torch.nn.Embedding(100, 64, device="cuda")
    GlobalOptimManager.get_instance().register_module_override(layer, "weight", {"optim_bits": 32})
    optimizer = AdamW(layer.parameters(), optim_bits=8)
    layer.weight.grad = torch.zeros_like(layer.weight)
    optimizer.step()
    assert optimizer.state[layer.weight]["state1"].dtype == torch.float32


def test_4_bit_layers_are_refused_in_one_line(books: Books) -> None:
    import bitsandbytes

    with pytest.raises(NotImplementedError, match="load_in_4bit"):
        bitsandbytes.nn.Linear4bit(4, 4)
    with pytest.raises(NotImplementedError, match="percentile_clipping=5"):
        bitsandbytes.optim.Adam8bit([torch.nn.Parameter(torch.zeros(3))], percentile_clipping=5)
