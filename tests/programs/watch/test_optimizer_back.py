"""What a plain optimizer saves of itself goes on as it would have, once it is loaded, or it is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import passed, ran

pytestmark = pytest.mark.usefixtures("surroundings")

#: A loop that saves its optimizer at its end, within a function that then drops it.
PROGRAM = """
import torch

class Optimizer(torch.optim.Adam):
    def load_state_dict(self, state):
        {load}

def train():
    model = torch.nn.Linear(8, 4)
    optimizer = Optimizer(model.parameters(), lr=1e-2)
    for step in range(6):
        model(torch.randn(2, 8)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save({saved}, "checkpoint.pt")
    {behind}

train()
"""

SOUND = "super().load_state_dict(state)"
WITHOUT_MOMENTS = "super().load_state_dict({**state, 'state': {}})"
REFUSES = "raise KeyError('step')"


def found(tmp_path: Path, load: str, *, saved: str = "optimizer.state_dict()", behind: str = "pass") -> list[str]:
    (tmp_path / "train.py").write_text(PROGRAM.format(load=load, saved=saved, behind=behind))
    (rank,) = passed(ran(tmp_path, "cpu", 1, "python train.py")).ranks
    return [text.partition(" is ")[0] for text in rank.loaded_otherwise]


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (SOUND, []),
        (WITHOUT_MOMENTS, ["the optimizer's next step"]),
        (REFUSES, ["the optimizer refuses its own state: KeyError: 'step'"]),
    ],
)
def test_a_state_that_is_not_what_it_was_once_it_is_loaded_is_seen(tmp_path: Path, load: str, said: list[str]) -> None:
    assert found(tmp_path, load) == said


def test_an_optimizer_in_a_checkpoint_of_more_is_found(tmp_path: Path) -> None:
    saved = "{'model': model.state_dict(), 'optimizer': optimizer.state_dict()}"
    assert found(tmp_path, WITHOUT_MOMENTS, saved=saved) == ["the optimizer's next step"]


@pytest.mark.parametrize(
    "behind", ["optimizer.param_groups[0]['lr'] = 1e-3", "model(torch.ones(2, 8)).sum().backward(); optimizer.step()"]
)
def test_nothing_is_known_of_an_optimizer_that_is_not_as_it_was_saved(tmp_path: Path, behind: str) -> None:
    assert found(tmp_path, WITHOUT_MOMENTS, behind=behind) == []
