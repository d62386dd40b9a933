"""Workloads in words."""

from __future__ import annotations

import pytest

from dsregress.wording import workload_words


@pytest.mark.parametrize(
    ("line", "ranks", "are_open"),
    [
        ("deepspeed train.py", 1, True),
        ("accelerate launch train.py", 1, True),
        ("trl sft", 1, True),
        ("torchrun --nproc_per_node gpu train.py", 1, True),
        ("deepspeed train.py", 8, False),
        ("deepspeed --num_gpus 1 train.py", 1, False),
        ("torchrun train.py", 1, False),
        ("python train.py", 1, False),
    ],
)
def test_a_line_that_would_take_every_gpu_and_runs_as_one_rank_leaves_ranks_open(
    line: str, ranks: int, are_open: bool
) -> None:
    assert workload_words.leaves_ranks_open(line, ranks) is are_open
