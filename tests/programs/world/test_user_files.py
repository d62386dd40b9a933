"""A program that saves over its user's files changes nothing of them, and no run finds what another one has left."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import passed, ran
from tests.vgpu.isolation import ways
from vgpu import isolation
from vgpu.isolation import landlock

pytestmark = pytest.mark.usefixtures("surroundings")

#: Trains from its last checkpoint, if there is one, and saves in the ways of torch, which write from C++.
TRAIN = """
import os, sqlite3, subprocess, sys
import torch

sys.path.insert(0, {root!r})

model = torch.nn.Linear(4, 1, bias=False)
torch.nn.init.constant_(model.weight, float(len(os.listdir("outputs"))))
if os.path.exists("last.pt"):
    model.load_state_dict(torch.load("last.pt"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(torch.ones(1, 4)).square().sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), "last.pt")
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), "scripted.pt")
    torch.UntypedStorage.from_file("storage.bin", shared=True, nbytes=8).fill_(7)
    open("outputs/plain.txt", "w").write("theirs")
    open({absolute!r}, "w").write("theirs")
    subprocess.run("echo theirs > last.txt; rm -rf outputs/old; chmod 600 kept.bin", shell=True)
    {more}
"""
GO_ALL_WAYS = "import pathlib; from tests.vgpu.isolation import ways; ways.go(pathlib.Path({mine!r}))"
MAPPED = (
    "; torch.from_file('storage.bin', shared=True, size=2, dtype=torch.float32).fill_(7)"  # not on tensors without data
)


@pytest.fixture
def mine(folder: Path) -> Path:
    """What is the user's, in the program's folder and elsewhere."""
    import torch

    scratch = folder.parent / "scratch"
    (scratch / "old").mkdir(parents=True)
    (scratch / "old" / "model.bin").write_bytes(b"mine")
    (folder / "outputs").symlink_to(scratch)
    torch.save({"weight": torch.ones(1, 4)}, folder / "last.pt")
    for name in ("scripted.pt", "storage.bin", "last.txt", "kept.bin"):
        (folder / name).write_bytes(b"mine    ")
    ways.prepare(scratch / "ways")
    return scratch


def users(folder: Path) -> list[object]:
    return [ways.snapshot(folder), ways.snapshot(folder.parent / "scratch")]


def run_of(folder: Path, name: str) -> Path:
    (folder.parent / "runs").mkdir(exist_ok=True)
    return folder.parent / "runs" / name


def written(folder: Path, mine: Path, more: str = "") -> None:
    root = str(Path(__file__).parents[2])
    (folder / "train.py").write_text(TRAIN.format(root=root, absolute=str(mine / "absolute.txt"), more=more))


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_nothing_of_the_users_is_changed_and_no_run_resumes_from_another(folder: Path, mine: Path, device: str) -> None:
    if isolation.strongest(folder) != isolation.VIEW:
        pytest.skip("this kernel, or this container, allows no view of one's own")
    written(folder, mine, GO_ALL_WAYS.format(mine=str(mine / "ways")) + (MAPPED if device == "cpu" else ""))
    before = users(folder)
    runs = [passed(ran(folder, device, 1, "python train.py", run=run_of(folder, f"{n}"))) for n in (1, 2)]
    assert users(folder) == before
    assert runs[0].ranks[0].numerics == runs[1].ranks[0].numerics
    (note,) = (note for note in runs[0].ranks[0].notes if "discarded" in note)
    assert note.startswith(f"the program changed {folder.parent}/")
    assert note.endswith(" more: discarded with the run, your files are as they were")


def test_what_a_view_holds_read_only_is_neither_the_disk_nor_the_releases_failure(folder: Path, mine: Path) -> None:
    if isolation.strongest(folder) != isolation.VIEW:
        pytest.skip("this kernel, or this container, allows no view of one's own")
    written(folder, mine, 'open("/dev/dsregress-new", "w")')
    record = ran(folder, "cpu", 1, "python train.py", run=run_of(folder, "refused"))
    assert (record.outcome, record.stage, record.machine_fault) == ("failed", "import", "")
    assert record.signature.startswith("CannotRun: train.py writes to .../dsregress-new, and this machine can keep it")


def test_without_a_view_a_program_is_refused_what_is_not_its_folders(
    folder: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container, or where AppArmor keeps namespaces from users."""
    if not landlock.landlock_version():
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr(isolation, "KINDS", (isolation.LANDLOCK,))
    written(folder, mine)
    before = users(folder)
    record = ran(folder, "cpu", 1, "python train.py", run=run_of(folder, "refused"))
    assert record.outcome == "failed"
    assert record.stage == "import"  # which says nothing of a release
    assert record.signature == (
        "CannotRun: train.py writes to .../absolute.txt, and this machine can keep it from your files only by refusing: "
        "let it write below its folder"
    )
    (folder / "train.py").write_text((folder / "train.py").read_text().replace(str(mine), "."))
    before = users(folder)
    passed(ran(folder, "cpu", 1, "python train.py", run=run_of(folder, "within")))
    assert users(folder) == before


OF_ITS_COMMIT = """
import subprocess
import torch

commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
assert commit == {commit!r}, commit
subprocess.check_call(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--allow-empty", "-qm", "theirs"])
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("at", [".", "examples"])
def test_a_program_finds_its_commit_and_what_it_commits_is_discarded(folder: Path, at: str) -> None:
    if isolation.strongest(folder) != isolation.VIEW:
        pytest.skip("this kernel, or this container, allows no view of one's own")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "--allow-empty", "-qm", "mine"], check=True)
    head = [*git, "rev-parse", "HEAD"]
    commit = subprocess.check_output(head, text=True).strip()
    (folder / at).mkdir(exist_ok=True)
    (folder / at / "train.py").write_text(OF_ITS_COMMIT.format(commit=commit))
    passed(ran(folder / at, "sim", 1, "python train.py", run=run_of(folder, "1")))
    assert subprocess.check_output(head, text=True).strip() == commit
