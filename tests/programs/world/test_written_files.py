"""A run goes on from the files that another one has written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dsregress.probe.border.wire import RunRecord
from dsregress.programs.world.written_files import are_read, keep_written_files, put_written_files
from tests.programs.cells import passed, ran

SAVING = """
import os, sys, torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if "--resume" in sys.argv:
    saved = torch.load("out/state.pt")
    model.load_state_dict(saved["model"])
os.makedirs("out", exist_ok=True)
x = torch.ones(4, 8)
for step in range(5):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.save({"model": model.state_dict()}, "out/state.pt")
"""


def losses_of(record: RunRecord) -> list[float]:
    numerics = record.ranks[0].numerics
    assert numerics is not None
    return [loss for loss in numerics.losses if loss is not None]


@pytest.mark.usefixtures("surroundings")
def test_a_second_line_loads_what_the_first_has_saved_and_the_users_folder_stays_as_it_is(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "train.py").write_text(SAVING)
    kept = tmp_path / "kept"
    first = passed(ran(folder, "cpu", 1, "python train.py", kept=kept))
    second = passed(ran(folder, "cpu", 1, "python train.py --resume", found=kept))
    assert [str(file.relative_to(kept)) for file in kept.rglob("*") if file.is_file()] == ["out/state.pt"]
    assert os.listdir(folder) == ["train.py"]
    before, after = (losses_of(record) for record in (first, second))
    assert after[0] == before[-1] < before[0]  # the last step came after the last save


@pytest.mark.usefixtures("surroundings")
def test_a_run_that_fails_leaves_nothing_to_go_on_from(folder: Path, tmp_path: Path) -> None:
    (folder / "train.py").write_text(f"open('out.txt', 'w').write('x')\n{SAVING}raise ValueError('at the end')\n")
    record = ran(folder, "cpu", 1, "python train.py", kept=tmp_path / "kept", warmup_steps=9)
    assert record.outcome == "failed"
    assert not (tmp_path / "kept").exists()


def test_only_what_is_new_or_changed_is_kept_and_it_replaces_links_to_the_users_files(tmp_path: Path) -> None:
    user, run, kept, other = (tmp_path / name for name in ("user", "run", "kept", "other"))
    for made in (user, run, other):
        made.mkdir()
    (user / "config.json").write_text("{}")
    (user / "state.bin").write_text("old")
    (run / "config.json").write_text("{}")
    (run / "data.bin").symlink_to(user / "state.bin")
    (run / "out").mkdir()
    (run / "out" / "model.bin").write_text("weights")
    (run / "state.bin").write_text("new")
    (run / ".git").write_text("gitdir: theirs")
    keep_written_files(run, user, kept)
    assert not (kept / ".git").exists()
    assert sorted(str(file.relative_to(kept)) for file in kept.rglob("*") if file.is_file()) == [
        "out/model.bin",
        "state.bin",
    ]
    (other / "state.bin").symlink_to(user / "state.bin")
    put_written_files(kept, other)
    assert (other / "state.bin").read_text() == "new"
    assert (user / "state.bin").read_text() == "old"
    assert (kept / "out" / "model.bin").exists()


def _goes_on(record: RunRecord) -> bool | None:
    return record.ranks[0].goes_on


@pytest.mark.usefixtures("surroundings")
def test_a_second_line_that_reads_no_checkpoint_goes_on_from_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "train.py").write_text(SAVING)
    kept = tmp_path / "kept"
    assert _goes_on(passed(ran(folder, "cpu", 1, "python train.py", kept=kept))) is None
    assert _goes_on(passed(ran(folder, "cpu", 1, "python train.py --resume", found=kept))) is True
    assert _goes_on(passed(ran(folder, "cpu", 1, "python train.py", found=kept))) is False  # and saves its own there


@pytest.mark.usefixtures("surroundings")
def test_a_second_line_that_trains_nothing_goes_on_from_what_it_reads(folder: Path, tmp_path: Path) -> None:
    (folder / "train.py").write_text(SAVING)
    kept = tmp_path / "kept"
    passed(ran(folder, "cpu", 1, "python train.py", kept=kept))
    call = "model = torch.nn.Linear(8, 1)\nwith torch.no_grad():\n    model.eval()(torch.ones(4, 8))\n"
    (folder / "score.py").write_text(f"import torch\n{call}")
    (folder / "load.py").write_text(f"import torch\nsaved = torch.load('out/state.pt')\n{call}")
    for line, goes_on in (("python score.py", False), ("python load.py", True)):
        assert _goes_on(passed(ran(folder, "cpu", 1, line, found=kept, inference=True))) is goes_on


def test_a_file_counts_as_read_whoever_reads_it_but_not_a_model_card(tmp_path: Path) -> None:
    kept, run = tmp_path / "kept", tmp_path / "run"
    kept.mkdir()
    for name in ("README.md", "model.safetensors"):
        (kept / name).write_text("x")
    put_written_files(kept, run)
    assert are_read(kept, run) is False
    (run / "README.md").read_text()
    (run / "model.safetensors").write_text("other weights")
    assert are_read(kept, run) is False
    subprocess.run(["cat", str(run / "model.safetensors")], check=True, capture_output=True)
    assert are_read(kept, run) is True


def test_a_state_may_have_any_name(tmp_path: Path) -> None:
    kept, run = tmp_path / "kept", tmp_path / "run"
    kept.mkdir()
    for name in ("base.safetensors", "epoch_1.tar", "events.out.tfevents.1.host.2.0"):
        (kept / name).write_text("x")
    put_written_files(kept, run)
    (run / "events.out.tfevents.1.host.2.0").read_text()
    assert are_read(kept, run) is False
    (run / "epoch_1.tar").read_text()
    assert are_read(kept, run) is True


def test_any_file_counts_where_none_has_a_state(tmp_path: Path) -> None:
    kept, run = tmp_path / "kept", tmp_path / "run"
    kept.mkdir()
    (kept / "steps.json").write_text("3")
    put_written_files(kept, run)
    assert are_read(kept, run) is False
    (run / "steps.json").unlink()  # by then it may have been read
    assert are_read(kept, run) is True
