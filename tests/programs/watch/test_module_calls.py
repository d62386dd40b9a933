"""The end of a module's call, be it by an error."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.oracles import truth  # noqa: E402
from dsregress.programs.watch.module_calls import when_left  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402


class Failing(torch.nn.Module):
    def forward(self, fails: bool) -> bool:
        if fails:
            raise KeyError("its own")
        return fails


def test_a_call_that_fails_is_over_once_and_its_error_stays_as_it_is() -> None:
    module, ends, returns = Failing(), [], []

    def call(fails: bool) -> None:
        when_left(module, lambda: ends.append(fails), returned=lambda args, kwargs, out: returns.append(out))
        module(fails)

    with pytest.raises(KeyError, match="its own"):
        call(True)
    try:
        raise ValueError
    except ValueError:
        call(False)
    call(False)
    assert (ends, returns) == ([True, False, False], [False, False])
    assert not module._forward_hooks


RETRIES = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(4, 4)
    def forward(self, x):
        out = self.up(x)
        if x.shape[0] > 2:
            raise ValueError("too many rows")
        return out

model = Model()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(5):
    rows = torch.randn(4, 4)
    try:
        loss = model(rows).square().mean()
    except ValueError:
        loss = sum(model(half).square().mean() for half in rows.chunk(2)) / 2
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.usefixtures("surroundings")
def test_a_program_that_catches_its_models_error_goes_on_and_is_judged(folder: Path) -> None:
    (folder / "train.py").write_text(RETRIES)
    numerics = passed(ran(folder, "cpu", 1, "python train.py")).ranks[0].numerics
    assert numerics is not None
    assert not numerics.note.startswith("no truth"), numerics.note
    assert truth.worst(numerics) <= 1
