"""LLaMA-Factory's command, as its releases start the ranks of a job, and torch's older launcher."""

import sys
import types
from pathlib import Path

import pytest

from dsregress.probe.launch_line import LaunchLineError, parse
from dsregress.programs.launch import console_scripts
from dsregress.programs.launch.launchers import start_of

LINE = parse("llamafactory-cli train --stage sft")

RUNS_A_LIST = """
import subprocess, sys
def main():
    subprocess.run(["torchrun", "--nproc_per_node", "8", "launcher.py", *sys.argv[2:]])
"""

#: Up to 0.9.0.
RUNS_A_SHELL = """
import subprocess, sys
def main():
    subprocess.run("torchrun --nproc_per_node 8 launcher.py " + " ".join(sys.argv[2:]), shell=True)
"""

#: 0.7.1.
TRAINS_ITSELF = """
def run_exp(): pass
def main():
    run_exp()
"""


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def install(cli: str) -> None:
        package = tmp_path / "llamafactory"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "cli.py").write_text(cli)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("WORLD_SIZE", "8")

    yield install
    for name in ("llamafactory", "llamafactory.cli"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("cli", [RUNS_A_LIST, RUNS_A_SHELL])
def test_what_it_hands_to_torchrun_is_started(release, cli: str) -> None:
    release(cli)
    begun = start_of(LINE, 0)
    assert (begun.program, begun.arguments) == ("launcher.py", ("--stage", "sft"))


def test_a_command_that_starts_one_process_is_refused(release) -> None:
    release(TRAINS_ITSELF)
    with pytest.raises(LaunchLineError, match="starts one process"):
        start_of(LINE, 0)


def test_a_job_of_one_rank_trains_in_that_process(release, monkeypatch: pytest.MonkeyPatch) -> None:
    release(TRAINS_ITSELF)
    monkeypatch.setenv("WORLD_SIZE", "1")
    begun = start_of(LINE, 0)
    assert (begun.program, begun.arguments) == ("llamafactory.cli", ("train", "--stage", "sft"))


@pytest.mark.parametrize(
    ("options", "arguments"),
    [("", ("--local-rank=3", "--lr", "1")), ("--use_env ", ("--lr", "1")), ("--use-env ", ("--lr", "1"))],
)
def test_torch_distributed_launch_hands_over_the_local_rank(options: str, arguments: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    line = parse(f"python -m torch.distributed.launch --nproc_per_node 8 {options}train.py --lr 1")
    assert line.ranks == 8
    assert start_of(line, 3).arguments == arguments


def test_trl_whose_command_is_a_package_is_run_as_any_other_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in TRL 1.16, whose modules keep accelerate's launcher when they are imported."""
    package = tmp_path / "trl" / "cli"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("raise AssertionError('imported too early')")
    for name in [name for name in sys.modules if name.partition(".")[0] == "trl"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(console_scripts, "entry_point_of", lambda name: f"{name}.cli:main")
    begun = start_of(parse("trl grpo --num_processes 2"), 0)
    assert (begun.program, begun.entry, begun.arguments) == ("trl", "trl.cli:main", ("grpo", "--num_processes", "2"))
    sys.modules.pop("trl")


@pytest.mark.parametrize(("has_cuda", "kept"), [(False, {"CUDA_VISIBLE_DEVICES": "0,1"}), (True, {})])
def test_a_program_sees_which_cards_its_line_names_where_torch_could_use_none(
    monkeypatch: pytest.MonkeyPatch, has_cuda: bool, kept: dict[str, str]
) -> None:
    torch = types.SimpleNamespace(_C=types.SimpleNamespace(_has_cuda=has_cuda))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert start_of(parse("CUDA_VISIBLE_DEVICES=0,1 RANK=3 python train.py"), 0).variables == kept


def test_no_process_is_bound_to_the_cores_of_a_gpu_that_the_driver_would_name() -> None:
    line = parse("ACCELERATE_CPU_AFFINITY=1 OMP_NUM_THREADS=8 torchrun train.py")
    assert start_of(line, 0).variables.keys() & dict(line.variables).keys() == {"OMP_NUM_THREADS"}
