"""A trainer whose optimizer steps is told that it ends, in the way of its library."""

from __future__ import annotations

import sys
import types

import pytest

from dsregress.programs.watch import trainer_end

TRAINER = """
class Trainer:
    def __init__(self):
        self.should_stop = False
        self.state = State()

    def fit(self, step):
        step()

class State:
    global_step, max_steps = 4, 90
"""


def _trainer(monkeypatch: pytest.MonkeyPatch, module: str) -> types.ModuleType:
    """A module that defines a Trainer."""
    made = types.ModuleType(module)
    exec(TRAINER, made.__dict__)
    monkeypatch.setitem(sys.modules, module, made)
    return made


@pytest.mark.parametrize("module", ["lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"])
def test_lightning_is_told_to_stop(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    told: list[bool] = []
    trainer = _trainer(monkeypatch, module).Trainer()
    trainer.state = None
    trainer.fit(lambda: told.append(trainer_end.ends_with_this_step()))
    assert (told, trainer.should_stop) == ([True], True)


def test_transformers_is_told_that_this_step_is_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = _trainer(monkeypatch, trainer_end.OF_TRANSFORMERS).Trainer()
    trainer.fit(trainer_end.ends_with_this_step)
    assert (trainer.state.max_steps, trainer.should_stop) == (5, False)


def test_a_loop_of_ones_own_has_no_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = _trainer(monkeypatch, "lightning.pytorch.trainer.trainer").Trainer()
    assert not trainer_end.ends_with_this_step()
    assert not trainer.should_stop
