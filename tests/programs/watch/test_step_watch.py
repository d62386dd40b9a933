"""Which calls of a program are reported as its backward and its step."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from dsregress.programs.watch.step_watch import StepWatch  # noqa: E402


class Events(list[str]):
    """A `Listener` that notes the names of what it gets."""

    def forward_begins(self, model: Any) -> None:
        self.append("forward")

    def backward_begins(self, loss: Any, engine: Any) -> None:
        self.append("backward")

    def backward_ended(self) -> None:
        self.append("backward ended")

    def step_begins(self, stepper: Any) -> None:
        self.append("step")

    def step_ended(self, stepper: Any) -> None:
        self.append(f"stepped {type(stepper).__name__}")

    def accumulated(self) -> None:
        self.append("accumulated")

    def saves(self, what: object, file: object) -> None: ...

    def draws(self, indices: Any) -> None: ...

    def occasion_begins(self, phase: str) -> None:
        self.append(phase)

    def occasion_ended(self, failed: bool) -> None:
        self.append("failed" if failed else "ended")

    def resumed(self, stepper: Any) -> None:
        self.append("resumed")

    def clipping_begins(self, parameters: Any, limit: float, norm_type: float) -> None:
        self.append(f"clipping to {limit:g} by norm {norm_type:g}")

    def clipped(self, parameters: Any, norm: Any) -> None:
        self.append("clipped")


class Engine:
    """As DeepSpeed's with fp16: its optimizer steps once while it is made."""

    def __init__(self, parameter: Any) -> None:
        self.global_steps = 0
        self.optimizer = torch.optim.SGD([parameter], lr=0.1)
        self.optimizer.step()

    def backward(self, loss: Any) -> None:
        loss.backward()

    def step(self) -> None:
        self.optimizer.step()
        self.global_steps += 1

    def load_checkpoint(self, folder: str) -> tuple[str, dict[str, Any]]:
        return folder, {}


@pytest.mark.parametrize("reentrant", [False, True])
def test_optimizers_that_step_in_hooks_of_a_checkpointed_backward_are_one_step_after_it(reentrant: bool) -> None:
    """A reentrant checkpoint calls backward within the backward, and here every step is taken in that call."""
    layer = torch.nn.Linear(4, 4)
    for parameter in layer.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    events = Events()
    with StepWatch(events):
        for _ in range(2):
            inputs = torch.ones(2, 4, requires_grad=True)
            checkpoint(layer, inputs, use_reentrant=reentrant).sum().backward()
    assert events == ["backward", "backward ended", "step", "stepped SGD"] * 2


def test_clipping_lies_between_backward_and_step() -> None:
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    events = Events()
    with StepWatch(events):
        layer(torch.ones(2, 4)).sum().backward()
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
    torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    assert events == ["backward", "backward ended", "clipping to 1 by norm 2", "clipped", "step", "stepped SGD"]


def test_a_step_while_an_engine_is_made_is_not_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed.runtime.engine", types.SimpleNamespace(DeepSpeedEngine=Engine))
    parameter = torch.nn.Parameter(torch.ones(2))
    events = Events()
    with StepWatch(events):
        engine = Engine(parameter)
        assert events == []
        engine.backward(parameter.sum())
        engine.step()
        assert Engine(parameter).load_checkpoint("saved") == ("saved", {})
    assert events == ["backward", "backward ended", "step", "stepped Engine", "load", "resumed", "ended"]
