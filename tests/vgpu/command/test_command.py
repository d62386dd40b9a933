"""The command ``vgpu``, from an empty folder, with only the package's folder on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.paths import SOURCE
from vgpu import isolation
from vgpu.command import main

TRAIN = """
import os, sys
import torch, torch.distributed as dist
print("arguments", *sys.argv)
print("rank", os.environ.get("RANK"), "of", os.environ.get("WORLD_SIZE"), torch.cuda.get_device_name())
model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
if dist.is_torchelastic_launched():
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(8, 1024, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, loss.item(), torch.compile(torch.relu)(loss).ndim)
"""

Vgpu = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def vgpu(tmp_path: Path) -> Vgpu:
    """Run the command in an empty folder that has ``train.py``."""
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TRAIN)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(SOURCE),
            "PYTHONWARNINGS": "ignore",
        }
        return subprocess.run(
            [sys.executable, "-m", "vgpu", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def without_logs(text: str) -> str:
    """Leave out what DeepSpeed logs when it is imported."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("["))


SAVES = """
import os, shutil, sys
import torch
torch.save(torch.nn.Linear(4, 4, device="cuda").state_dict(), "model.pt")
os.system("echo theirs > notes.txt")
shutil.rmtree("runs")
open("new.txt", "w").write("theirs")
print("saved", os.path.getsize("model.pt") > 5)
"""


@pytest.mark.slow
def test_a_program_that_saves_over_its_users_files_changes_none_of_them(vgpu: Vgpu, tmp_path: Path) -> None:
    if isolation.strongest(tmp_path) != isolation.VIEW:
        pytest.skip("this kernel, or this container, allows no view of one's own")
    (tmp_path / "runs").mkdir()
    (tmp_path / "save.py").write_text(SAVES)
    mine = [tmp_path / "model.pt", tmp_path / "notes.txt", tmp_path / "runs" / "log"]
    for file in mine:
        file.write_text("mine\n")
    before = sorted(tmp_path.rglob("*"))
    done = vgpu("run", "--timeline", "page.html", "--", "python", "save.py")
    assert (done.returncode, "saved True" in done.stdout) == (0, True)
    assert [file.read_text() for file in mine] == ["mine\n"] * 3
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "page.html"])
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("vgpu: ")]
    assert line == f"vgpu: discarded what the program wrote: {mine[0]}, {mine[1]}, {tmp_path / 'runs'}"


@pytest.mark.slow
def test_torchruns_ranks_are_run_as_one_and_their_memory_is_printed(vgpu: Vgpu, tmp_path: Path) -> None:
    """Checked by hand: 4,194,304 bytes each for the weight, its gradient and DDP's bucket, 8,519,680 for each of the two
    cuBLAS workspaces, 32,768 for the input, 512 for the loss and for the gradient that backward begins with."""
    done = vgpu(
        "run", "--card", "A100-40G", "--ranks", "8", "--timeline", "page.html", "--", "torchrun", "train.py", "--x"
    )
    assert done.returncode == 0, done.stderr
    printed, _, page = without_logs(done.stdout).partition("\n\ntimeline  ")
    assert printed == (Path(__file__).parent / "printed.txt").read_text().rstrip("\n")
    assert page == "page.html\n"
    written = (tmp_path / "page.html").read_text()
    assert written.count("<polygon") == 7  # init, and twice three phases
    assert "<title>backward, step 2: peak 29,655,048 bytes</title>" in written
    assert "http" not in written
    assert "src=" not in written


@pytest.mark.slow
def test_a_script_without_a_launcher_has_no_rank_and_may_end_by_itself(vgpu: Vgpu) -> None:
    done = vgpu("run", "--steps", "all", "--", "python", "train.py")
    assert done.returncode == 0, done.stderr
    assert "rank None of None NVIDIA H100 80GB HBM3\nstep 0 1.0 0\nstep 1 1.0 0\nstep 2 1.0 0\n" in done.stdout
    assert (
        "rank 0 of 1 on H100-80G (NVIDIA H100 80GB HBM3): 3 optimizer steps; phases of step 3, in bytes" in done.stdout
    )


@pytest.mark.slow
def test_a_program_that_fails_has_its_own_traceback_and_what_it_held(vgpu: Vgpu, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("import torch\nx = torch.ones(3, device='cuda')\nraise RuntimeError('mine')\n")
    done = vgpu("run", "fails.py")
    assert done.returncode == 1
    assert without_logs(done.stderr) == (
        "Traceback (most recent call last):\n"
        f'  File "{tmp_path / "fails.py"}", line 3, in <module>\n'
        "    raise RuntimeError('mine')\n"
        "RuntimeError: mine\n"
    ).replace(str(tmp_path) + "/", "")
    assert "0 optimizer steps, in bytes" in done.stdout


@pytest.mark.slow
def test_an_exit_is_a_failure_unless_it_is_success(vgpu: Vgpu, tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(int(sys.argv[1]))\n")
    assert vgpu("run", "exits.py", "0").returncode == 0
    failed = vgpu("run", "exits.py", "7")
    assert (failed.returncode, without_logs(failed.stderr)) == (1, "vgpu: exits.py exits with 7\n")


@pytest.mark.slow
def test_what_is_not_modelled_is_one_line_and_a_code_of_its_own(vgpu: Vgpu, tmp_path: Path) -> None:
    (tmp_path / "decides.py").write_text(
        "import torch\nx = torch.nn.Linear(4, 4, device='cuda')(torch.ones(4, 4, device='cuda'))\n"
        "if x.sum().long() > 2:\n    print('more')\n"
    )
    done = vgpu("run", "decides.py")
    assert done.returncode == 3
    assert without_logs(done.stderr).startswith("vgpu: not modelled: a data-dependent decision (bool[]); ")
    assert without_logs(done.stderr).endswith("At decides.py:3 in <module>\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run --card A100 -- train.py", "vgpu: no such card: A100; known are A100-40G, A100-80G, A800-80G, B200"),
        ("run --rank 8 --ranks 8 -- train.py", "vgpu: --rank 8: there are 8 ranks, counted from 0\n"),
        ("run -- absent.py", "vgpu: absent.py: no such file\n"),
        ("run --timeline no/page.html -- train.py", "vgpu: --timeline: no: no such folder\n"),
        ("run", "vgpu: give the launch line after the options: vgpu run --ranks 8 -- torchrun train.py\n"),
        ("run --ranks 0 -- train.py", "vgpu run: argument --ranks: '0' is not a number from 1 on\n"),
        ("run --steps some -- train.py", "vgpu run: argument --steps: 'some' is not a number from 1 on\n"),
    ],
)
def test_usage_is_refused_in_one_line(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    try:
        code = main(words.split())
    except SystemExit as error:
        code = error.code  # type: ignore[assignment]
    assert code == 2
    assert capfd.readouterr().err.startswith(said)


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["run", "--", "train.py"]) == 2
    assert capsys.readouterr().err == "vgpu: torch is not installed here: pip install torch\n"


def test_the_known_cards_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 18
    assert lines[0] == "card            memory                 usable  capability  SMs  as torch calls it"
    assert lines[5] == "H100-80G    81,559 MiB   84,943,715,696 bytes         9.0  132  NVIDIA H100 80GB HBM3"


ATTEND = """
import torch
q = torch.empty(1, 2, 64, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
for mask in (None, None, torch.ones(64, 64, dtype=torch.bool, device="cuda")):
    torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
"""


def test_calls_of_attention_are_listed_by_kernel(vgpu: Vgpu, tmp_path: Path) -> None:
    (tmp_path / "attend.py").write_text(ATTEND)
    done = vgpu("run", "--", "python", "attend.py")
    assert done.returncode == 0, done.stderr
    begin = done.stdout.index("phase  attention")
    assert done.stdout[begin:].split("\n\n")[0].splitlines() == [
        "phase  attention                    calls",
        "init   efficient: a mask is passed      1",
        "init   flash                            2",
    ]
