"""The phases of a program's steps, recorded with a made-up meter, and the end of the program after the wanted ones."""

from __future__ import annotations

import contextlib
import gc
import itertools
import weakref

import pytest

torch = pytest.importorskip("torch")

from vgpu.figures import PhaseMemory, PhaseReading  # noqa: E402
from vgpu.watching.step_recorder import StepRecorder, StepsDone  # noqa: E402


class PretendedMeter:
    def __enter__(self) -> PretendedMeter:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def begin(self) -> None: ...

    def end(self) -> PhaseReading:
        return PhaseReading()


def recorder(steps: int | None) -> StepRecorder:
    """Return a recorder whose phases hold 1, 2, 3, ... bytes."""
    numbers = itertools.count(1)

    def memory(reading: PhaseReading) -> tuple[PhaseMemory, int]:
        number = next(numbers)
        return PhaseMemory(
            allocated_bytes=number, allocated_peak_bytes=number, reserved_bytes=0, reserved_peak_bytes=0,
            smallest_card_bytes=0, host_bytes=0, host_peak_bytes=0,
        ), 10 * number  # fmt: skip

    return StepRecorder(PretendedMeter(), memory, steps)


def train(recording: StepRecorder, steps: int, micro_batches: int = 1) -> int:
    """Train on the CPU; return the steps that were begun."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begun = 0
    recording.begin()
    try:
        with recording.watch:
            model.eval()
            with torch.no_grad():
                model(torch.ones(2))
            model.train()
            for _ in range(steps):
                begun += 1
                for _ in range(micro_batches):
                    model(torch.ones(2)).sum().backward()
                optimizer.step()
    except StepsDone:
        pass
    finally:
        recording.end()
    return begun


def test_each_phase_lasts_until_the_next_one_begins() -> None:
    recording = recorder(steps=2)
    assert train(recording, steps=5, micro_batches=2) == recording.steps == 2
    assert [(span.step, span.name) for span in recording.spans] == [
        (1, "init"),
        (1, "evaluate"),
        (1, "forward"),
        (1, "backward"),
        (1, "forward"),
        (1, "backward"),
        (1, "step"),
        (2, "forward"),
        (2, "backward"),
        (2, "forward"),
        (2, "backward"),
        (2, "step"),
    ]
    assert [span.event for span in recording.spans] == [10 * number for number in range(1, 13)]


def test_the_last_whole_step_counts_and_what_came_before_training() -> None:
    recording = recorder(steps=None)
    assert train(recording, steps=3) == recording.steps == 3
    found = {name: [span.memory.allocated_bytes for span in spans] for name, spans in recording.phases().items()}
    assert found == {"init": [1], "evaluate": [2], "forward": [9], "backward": [10], "step": [11]}


def test_a_program_without_a_step_has_the_phases_that_it_had() -> None:
    recording = recorder(steps=2)
    train(recording, steps=0)
    assert list(recording.phases()) == ["init", "evaluate"]


def test_only_the_optimizer_that_stepped_first_counts() -> None:
    recording = recorder(steps=2)
    first, second = (torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1) for _ in range(2))
    recording.begin()
    with recording.watch:
        for optimizer in (first, second, second):
            optimizer.step()
        with pytest.raises(StepsDone):
            first.step()
    recording.end()
    assert recording.steps == 2


def test_an_optimizer_that_the_program_drops_is_kept_by_nobody_and_the_next_one_counts() -> None:
    recording = recorder(steps=2)
    recording.begin()
    with contextlib.suppress(StepsDone), recording.watch:
        for _ in range(2):
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
            optimizer.step()
            dropped = weakref.ref(optimizer)
            del optimizer
            gc.collect()
            assert dropped() is None
    recording.end()
    assert recording.steps == 2


@pytest.mark.parametrize("is_keyword", [False, True])
def test_a_closure_is_forward_and_backward_and_the_step_begins_after_it(is_keyword: bool) -> None:
    recording, model = recorder(steps=2), torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(2)).sum()
        loss.backward()
        return loss

    recording.begin()
    with contextlib.suppress(StepsDone), recording.watch:
        for _ in range(3):
            optimizer.step(closure=closure) if is_keyword else optimizer.step(closure)
    recording.end()
    step = ["forward", "backward", "step"]
    assert [(span.step, span.name) for span in recording.spans] == [
        (1, "init"),
        *[(1, name) for name in step],
        *[(2, name) for name in step],
    ]


def test_each_call_of_a_closure_interrupts_the_step() -> None:
    recording, model = recorder(steps=1), torch.nn.Linear(2, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2, max_eval=2, tolerance_change=0, tolerance_grad=0)

    def closure() -> torch.Tensor:
        loss = model(torch.ones(2)).square().sum()
        loss.backward()
        return loss

    recording.begin()
    with pytest.raises(StepsDone), recording.watch:
        optimizer.step(closure)
    recording.end()
    names = [span.name for span in recording.spans]
    assert names == ["init", "forward", "backward", "step", "forward", "backward", "step"]


def test_a_step_that_leaves_its_closure_uncalled_is_a_step() -> None:
    class Own(torch.optim.Optimizer):
        def step(self, closure: object = None) -> None: ...

    recording, model = recorder(steps=1), torch.nn.Linear(2, 2)
    optimizer = Own(model.parameters(), {})
    recording.begin()
    with contextlib.suppress(StepsDone), recording.watch:
        model(torch.ones(2)).sum().backward()
        optimizer.step(lambda: None)
    recording.end()
    assert [span.name for span in recording.spans] == ["init", "forward", "backward", "step"]
