from __future__ import annotations

import pytest

from dsregress.programs.launch.child_processes import trains


@pytest.mark.parametrize(
    "words",
    [
        ["/usr/bin/python3.11", "-u", "train.py"],
        ["python", "-m", "torch.distributed.run", "train.py"],
        ["torchrun", "train.py"],
        ["/opt/bin/deepspeed", "train.py"],
        ["accelerate", "launch", "train.py"],
        ["python", "-m", "axolotl.cli.train", "x.yaml"],
        ["nohup", "python", "train.py"],
        ["env", "A=1", "python", "train.py"],
        ["bash", "-c", "python train.py"],
        ["sh", "-ec", "cd x && torchrun train.py > log 2>&1"],
        ["python train.py"],
        ["cd x; A=1 torchrun train.py | tee log"],
    ],
    ids=" ".join,
)
def test_a_process_trains_by_what_it_executes(words: list[str]) -> None:
    assert trains(words)


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "/data/pytorch"],
        ["ls /data/pytorch"],
        ["cp", "python.txt", "torch.txt"],
        ["git", "-C", "deepspeed", "rev-parse", "HEAD"],
        ["python", "--version"],
        ["python"],
        ["python", "-c", "print(1)"],
        ["python", "-m", "pip", "install", "torch"],
        ["bash", "-c", "ls torch; which python"],
        ["bash", "torch.sh"],
        ["grep 'python train.py' log"],
        ["echo 'unclosed python"],
    ],
    ids=" ".join,
)
def test_a_word_of_another_command_does_not_make_it_train(words: list[str]) -> None:
    assert not trains(words)
