"""Invariants of steps that need no reference, each on a fault that breaks it; what programs do on purpose breaks none."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import FROZEN_MOVED, GRADIENTS_KEPT, NOTHING_MOVES, SHIFTED_TWICE  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

PROGRAM = """
import copy, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 4))
teacher = copy.deepcopy(model).requires_grad_(False)
BEFORE
optimizer = OPTIMIZER
for step in range(5):
    for micro_batch in range(2):
        model(torch.randn(2, 8)).pow(2).sum().backward()
    optimizer.step()
    AFTER
"""
ZERO = "optimizer.zero_grad()"
EMA = """
    for own, other in zip(model.parameters(), teacher.parameters()):
        with torch.no_grad(): other.lerp_(own, 0.5)
    optimizer.zero_grad()"""
TEACHER_WITHIN = "model.teacher = teacher; model.forward = lambda x: model[2](model[1](model[0](x)))"
OTHERS = "torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1)"
ATTACK = """
noise = nn.Parameter(torch.zeros(2, 8))
forward = model.forward
model.forward = lambda x: forward(x + noise)"""
DECAYS = "model[0].requires_grad_(False); model[0].weight.grad = torch.zeros_like(model[0].weight)"
DECAYING = "torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)"


def broken(folder: Path, **words: str) -> dict[str, list[str]]:
    """The invariants that a program breaks."""
    program = PROGRAM
    given = {"BEFORE": "", "OPTIMIZER": "torch.optim.SGD(model.parameters(), lr=0.1)", "AFTER": ZERO, **words}
    for word, meaning in given.items():
        program = program.replace(word, meaning)
    (folder / "train.py").write_text(program)
    rank = passed(ran(folder, "cpu", 1, "python train.py")).ranks[0]
    assert rank.numerics is not None
    return rank.numerics.broken


@pytest.mark.parametrize(
    ("words", "invariant", "names"),
    [
        ({"AFTER": "pass"}, GRADIENTS_KEPT, ["0.weight", "0.bias", "2.weight", "2.bias"]),
        ({"AFTER": "model[2].zero_grad()"}, GRADIENTS_KEPT, ["0.weight", "0.bias"]),
        (
            {"OPTIMIZER": OTHERS, "AFTER": "model.zero_grad()"},
            NOTHING_MOVES,
            ["0.weight", "0.bias", "2.weight", "2.bias"],
        ),
        (
            {"BEFORE": "torch.optim.SGD.step = lambda *_: None"},
            NOTHING_MOVES,
            ["0.weight", "0.bias", "2.weight", "2.bias"],
        ),
        ({"BEFORE": DECAYS, "OPTIMIZER": DECAYING, "AFTER": "model[2].zero_grad()"}, FROZEN_MOVED, ["0.weight"]),
    ],
    ids=["no zero_grad", "zero_grad of a part", "an optimizer of other weights", "a step that does nothing", "decay"],
)
def test_a_broken_invariant_is_found_and_names_its_weights(
    folder: Path, words: dict[str, str], invariant: str, names: list[str]
) -> None:
    assert broken(folder, **words) == {invariant: names}


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"AFTER": "optimizer.zero_grad(set_to_none=False)"},
        {"AFTER": EMA},
        {"AFTER": EMA, "BEFORE": TEACHER_WITHIN},
        {"BEFORE": ATTACK, "OPTIMIZER": "torch.optim.SGD([noise], lr=0.1)", "AFTER": ZERO},
        {"OPTIMIZER": "torch.optim.SGD(model.parameters(), lr=0.0)"},
        {"BEFORE": "model[0].requires_grad_(False)"},
    ],
    ids=["sound", "zeros", "a teacher", "a teacher within", "an attack", "no rate", "frozen"],
)
def test_what_a_program_does_on_purpose_breaks_none(folder: Path, words: dict[str, str]) -> None:
    assert broken(folder, **words) == {}


GAN = """
import torch
from torch import nn
torch.manual_seed(0)
maker, judge = nn.Linear(4, 8), nn.Linear(8, 1)
of_maker, of_judge = (torch.optim.Adam(one.parameters(), lr=0.01) for one in (maker, judge))
for step in range(5):
    of_judge.zero_grad()
    judge(torch.randn(2, 8)).sum().backward()
    judge(maker(torch.randn(2, 4)).detach()).sum().backward()
    of_judge.step()
    of_maker.zero_grad()
    judge(maker(torch.randn(2, 4))).sum().backward()
    of_maker.step()
"""


def test_a_generator_may_leave_gradients_in_its_discriminator(folder: Path) -> None:
    (folder / "train.py").write_text(GAN)
    rank = passed(ran(folder, "cpu", 1, "python train.py")).ranks[0]
    assert len(rank.models) == 2
    assert [one.broken for one in rank.models.values()] == [{}, {}]


CAUSAL = """
import torch, transformers
config = dict(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
torch.manual_seed(0)
model = MODEL
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    ids = torch.randint(64, (2, 12))
    following = torch.cat([ids[:, 1:], torch.full((2, 1), -100)], dim=1)
    model(input_ids=ids, LABELS).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LLAMA = "transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))"
BART = (
    "transformers.BartForCausalLM(transformers.BartConfig(vocab_size=64, d_model=16, decoder_layers=1, "
    "decoder_attention_heads=2, decoder_ffn_dim=32, is_decoder=True, add_cross_attention=False))"
)


@pytest.mark.parametrize(
    ("model", "labels", "found"),
    [
        (LLAMA, "labels=following", {SHIFTED_TWICE: ["LlamaForCausalLM"]}),
        (LLAMA, "labels=ids", {}),
        (LLAMA, "labels=following, shift_labels=following", {}),
        (BART, "labels=following", {}),
    ],
    ids=["shifted twice", "shifted by the model", "shifted for sequence parallelism", "a model that does not shift"],
)
def test_labels_that_are_shifted_before_a_model_shifts_them_are_found(
    folder: Path, model: str, labels: str, found: dict[str, list[str]]
) -> None:
    pytest.importorskip("transformers")
    (folder / "train.py").write_text(CAUSAL.replace("MODEL", model).replace("LABELS", labels))
    rank = passed(ran(folder, "cpu", 1, "python train.py")).ranks[0]
    assert rank.numerics is not None
    assert rank.numerics.broken == found
