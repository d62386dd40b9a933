"""A launch line as its launcher's own parser reads it."""

from __future__ import annotations

import pytest

from vgpu.command.launch_words import LaunchedScript, LaunchWordsError, read_launch_words


@pytest.mark.parametrize("line", ["python train.py --lr 1", "python3.11 -u train.py --lr 1", "train.py --lr 1"])
def test_python_starts_one_rank_without_a_launcher(line: str) -> None:
    assert read_launch_words(line.split()) == LaunchedScript(
        program="train.py", is_module=False, arguments=("--lr", "1"), takes_rank=False
    )


def test_python_starts_a_module() -> None:
    assert read_launch_words(["python", "-m", "package.train", "--lr", "1"]) == LaunchedScript(
        program="package.train", is_module=True, arguments=("--lr", "1"), takes_rank=False
    )


@pytest.mark.parametrize(
    ("line", "ranks", "per_node"),
    [
        ("torchrun train.py --lr 1", None, None),
        ("torchrun --nproc-per-node 4 train.py --lr 1", 4, 4),
        ("torchrun --nnodes=2 --nproc_per_node=8 train.py --lr 1", 16, 8),
        ("torchrun --nnodes 1:4 --nproc-per-node 8 train.py --lr 1", 32, 8),
        ("torchrun --nproc-per-node gpu train.py --lr 1", None, None),
        ("python -m torch.distributed.run --nproc-per-node 4 train.py --lr 1", 4, 4),
    ],
)
def test_torchrun_says_how_many_ranks_it_starts(line: str, ranks: int | None, per_node: int | None) -> None:
    pytest.importorskip("torch")
    found = read_launch_words(line.split())
    assert (found.program, found.arguments) == ("train.py", ("--lr", "1"))
    assert (found.ranks, found.ranks_per_node, found.takes_rank) == (ranks, per_node, True)
    assert found.variables["TORCHELASTIC_RUN_ID"] == "none"


def test_a_module_of_torchruns() -> None:
    pytest.importorskip("torch")
    found = read_launch_words(["torchrun", "-m", "package.train", "--lr", "1"])
    assert (found.program, found.is_module) == ("package.train", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "ranks", "local"),
    [
        ("deepspeed train.py --lr 1", None, True),
        ("deepspeed --num_gpus 4 --num_nodes 2 train.py --lr 1", 8, True),
        ("deepspeed --no_local_rank train.py --lr 1", None, False),
    ],
)
def test_deepspeed_passes_the_local_rank(line: str, ranks: int | None, local: bool) -> None:
    pytest.importorskip("deepspeed")
    found = read_launch_words(line.split())
    assert (found.program, found.arguments) == ("train.py", ("--lr", "1"))
    assert (found.ranks, found.takes_local_rank) == (ranks, local)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "give the launch line after the options: vgpu run --ranks 8 -- torchrun train.py"),
        (
            "accelerate launch train.py",
            "accelerate: no launcher that is known here; start the script by torchrun, deepspeed or python",
        ),
        ("python", "the launch line names no program: python train.py, or python -m MODULE"),
        ("python -c pass", "the launch line names no program: python train.py, or python -m MODULE"),
    ],
)
def test_a_line_that_cannot_be_run_is_refused_in_one_line(line: str, why: str) -> None:
    with pytest.raises(LaunchWordsError) as caught:
        read_launch_words(line.split())
    assert str(caught.value) == why


def test_the_launchers_own_message_is_passed_on() -> None:
    pytest.importorskip("torch")
    with pytest.raises(
        LaunchWordsError, match=r"^torchrun: argument --rdzv[_-]backend.*|^torchrun: .*required.*training_script"
    ):
        read_launch_words(["torchrun", "--nnodes", "2"])
    with pytest.raises(
        LaunchWordsError, match="^torchrun --no-python starts any program; only Python programs run here$"
    ):
        read_launch_words(["torchrun", "--no-python", "bash"])
