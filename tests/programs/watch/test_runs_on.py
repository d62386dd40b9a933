"""A program on real ranks runs on once it is measured: what it does last is seen."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import passed, ran

pytestmark = pytest.mark.usefixtures("surroundings")

TRAINING = """
import os, torch
model = torch.nn.Linear(8, 4).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
steps = 0
while steps < {steps}:
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
    open(os.path.join({there!r}, f"step-{{steps}}"), "w").close()
{last}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (made := tmp_path / "program").mkdir()
    (tmp_path / "there").mkdir()
    return made


def _program(folder: Path, last: str, steps: int = 6) -> str:
    there = str(folder.parent / "there")
    (folder / "train.py").write_text(TRAINING.format(steps=steps, there=there, last=last))
    return "python train.py"


def test_what_a_program_saves_last_is_seen(folder: Path) -> None:
    (rank,) = passed(ran(folder, "cpu", 1, _program(folder, "torch.save(model.state_dict(), 'last.pt')"))).ranks
    assert not rank.saved
    assert [one.name for one in rank.saved_last] == ["weight", "bias"]


def test_a_crash_after_the_measured_step_is_a_crash_and_what_was_measured_is_kept(folder: Path) -> None:
    record = ran(folder, "cpu", 1, _program(folder, "raise KeyError('at the end')"))
    assert (record.outcome, record.signature.startswith("KeyError: 'at the end'")) == ("failed", True)
    assert record.ranks[0].phases.keys() >= {"forward", "backward", "step"}


@pytest.mark.parametrize(("steps", "last"), [(6, "raise KeyError('at the end')"), (10**9, "")])
def test_what_is_fed_until_a_crash_or_until_it_is_ended_is_kept(folder: Path, steps: int, last: str) -> None:
    (rank,) = ran(folder, "cpu", 1, _program(folder, last, steps=steps)).ranks
    assert [batch.step for batch in rank.fed][-1] >= min(steps, 15)


def test_one_rank_that_crashes_at_the_end_ends_the_others(folder: Path) -> None:
    crash = "import time\nassert int(os.environ['RANK']), 'rank 0 saves'\ntime.sleep(60)"
    record = ran(folder, "cpu", 2, _program(folder, crash).replace("python", "torchrun --nproc_per_node 2"))
    assert "rank 0 saves" in record.signature
    assert len(record.ranks) == 2


def test_a_rank_that_has_run_on_waits_for_one_that_is_not_measured_yet(folder: Path) -> None:
    line = _program(folder, "", steps=10**9).replace("python", "torchrun --nproc_per_node 2")
    later = "import os, time\ntime.sleep(3 * int(os.environ['RANK']))\n"
    (folder / "train.py").write_text(later + (folder / "train.py").read_text())
    assert [rank.rank for rank in passed(ran(folder, "cpu", 2, line)).ranks] == [0, 1]


def test_a_program_of_many_steps_is_ended_after_a_few(folder: Path) -> None:
    record = passed(ran(folder, "cpu", 1, _program(folder, "", steps=10**9)))
    assert record.ranks[0].phases
    assert not record.ranks[0].saved_last


@pytest.mark.parametrize("steps", [12, 10**9])
def test_objects_that_each_step_leaves_are_counted(folder: Path, steps: int) -> None:
    line = _program(folder, "", steps=steps)
    script = folder / "train.py"
    script.write_text(script.read_text().replace("steps += 1", "steps += 1; kept.extend([i] for i in range(500))", 1))
    script.write_text("kept = []\n" + script.read_text())
    counts = passed(ran(folder, "cpu", 1, line)).ranks[0].live_objects
    assert len(counts) > 6
    assert all(450 < after - before < 700 for before, after in pairwise(counts[2:]))


@pytest.mark.parametrize(
    ("kept", "field", "size"),
    [
        ("torch.zeros(50_000, device='cuda')", "live_tensor_bytes", 200_000),
        ("b'x' * 2**26", "resident_bytes", 2**26),
    ],
)
def test_memory_that_each_step_leaves_is_counted(folder: Path, kept: str, field: str, size: int) -> None:
    """Bytes of more than 32 MiB: glibc takes fewer from what was freed before, which adds nothing."""
    line = _program(folder, "", steps=10**9)
    script = folder / "train.py"
    script.write_text("kept = []\n" + script.read_text().replace("steps += 1", f"steps += 1; kept.append({kept})", 1))
    rank = passed(ran(folder, "cpu", 1, line)).ranks[0]
    grown = [after - before for before, after in pairwise(getattr(rank, field)[2:])]
    assert len(grown) > 6
    assert 0.95 * size < statistics.median(grown) < 1.1 * size
    other = "resident_bytes" if field == "live_tensor_bytes" else "live_tensor_bytes"
    assert field == "live_tensor_bytes" or len(set(getattr(rank, other)[2:])) == 1


def test_what_is_not_here_at_the_end_is_no_crash(folder: Path) -> None:
    passed(ran(folder, "cpu", 1, _program(folder, "import a_package_that_is_not_here")))


def test_a_simulation_is_over_with_the_measured_step(folder: Path) -> None:
    passed(ran(folder, "sim", 1, _program(folder, "raise KeyError('at the end')")))


def test_a_program_whose_files_another_line_goes_on_from_is_ended_once_it_has_saved(
    folder: Path, tmp_path: Path
) -> None:
    line = _program(folder, "raise KeyError('at the end')")
    script = folder / "train.py"
    script.write_text(script.read_text().replace("steps += 1", "steps += 1; torch.save(model.state_dict(), 'a.pt')"))
    passed(ran(folder, "cpu", 1, line, kept=tmp_path / "kept"))


@pytest.mark.parametrize("before", ["", "torch.save(torch.nn.Linear(2, 2).state_dict(), 'base.pt')\n"])
def test_a_program_whose_files_another_line_goes_on_from_comes_to_what_it_saves_last(
    folder: Path, tmp_path: Path, before: str
) -> None:
    line = _program(folder, "torch.save(model.state_dict(), 'last.pt')")
    script = folder / "train.py"
    script.write_text(f"import torch\n{before}{script.read_text()}")
    passed(ran(folder, "cpu", 1, line, kept=tmp_path / "kept"))
    assert list((tmp_path / "kept").rglob("last.pt"))


@pytest.mark.parametrize("steps", [2, 3, 6])
def test_an_error_at_its_exit_is_a_warning_because_python_ignores_it(folder: Path, steps: int) -> None:
    last = "import atexit\natexit.register(lambda: 1 / 0)"
    record = passed(ran(folder, "cpu", 1, _program(folder, last, steps=steps)))
    assert any("in a handler of the exit: ZeroDivisionError" in warning for warning in record.detail.warnings)
    assert record.ranks[0].ended


def test_a_program_that_does_not_end_is_told_where_it_hangs(folder: Path) -> None:
    last = "import threading\nthreading.Thread(target=threading.Event().wait).start()"
    record = ran(folder, "cpu", 1, _program(folder, last), timeout_s=4.0)
    assert (record.outcome, record.stage) == ("timed_out", "exit")


def test_what_is_missing_here_at_its_exit_is_no_crash(folder: Path) -> None:
    last = "import atexit\natexit.register(lambda: __import__('a_package_that_is_not_here'))"
    passed(ran(folder, "cpu", 1, _program(folder, last, steps=2)))


TRAINER = """
import torch
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 1)

    def forward(self, x, labels=None):
        return {"loss": (self.inner(x) - labels).pow(2).mean()}

rows = [{"x": torch.ones(4), "labels": torch.ones(1)}] * 400
trainer = Trainer(Model(), TrainingArguments("out", report_to=[], max_steps=90, save_strategy="no"), train_dataset=rows)
trainer.train()
assert trainer.state.global_step == 19, trainer.state.global_step
torch.save(trainer.model.state_dict(), "last.pt")
"""


def test_a_trainer_of_many_steps_comes_to_its_own_end(folder: Path) -> None:
    pytest.importorskip("transformers")
    (folder / "train.py").write_text(TRAINER)
    (rank,) = passed(ran(folder, "cpu", 1, "python train.py")).ranks
    assert [one.name for one in rank.saved_last] == ["inner.weight", "inner.bias"]
    assert [batch.step for batch in rank.fed] == [1, 2, *range(4, 20)]  # the third counts calls
