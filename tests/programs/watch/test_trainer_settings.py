"""Which settings a running Trainer has, by a tiny one in the place of transformers'."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from dsregress.programs.watch import trainer_settings


class Optimizer(enum.Enum):
    FUSED = "adamw_torch_fused"


@dataclasses.dataclass
class Settings:
    output_dir: str = "/home/me/out"
    average_tokens_across_devices: bool = True
    optim: Optimizer = Optimizer.FUSED
    fsdp_config: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_steps: int = 10
    _n_gpu: int = 1


class Trainer:
    def __init__(self) -> None:
        self.args = Settings()

    def train(self, look: Callable[[], Any]) -> Any:
        return look()


@pytest.fixture(autouse=True)
def transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("transformers.trainer")
    module.Trainer = Trainer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.trainer", module)


def test_settings_of_the_running_trainer_are_those_that_its_release_made_of_the_programs() -> None:
    class OfTrl(Trainer):
        """As TRL's are made of transformers'."""

    assert OfTrl().train(trainer_settings.settings_in_force) == {
        "trainer.average_tokens_across_devices": True,
        "trainer.optim": "adamw_torch_fused",
        "trainer.max_steps": 10,
    }


def test_a_program_without_a_trainer_has_none() -> None:
    Trainer()
    assert trainer_settings.settings_in_force() == {}
