"""Workloads in words."""

from __future__ import annotations

import pytest

from dsregress.wording import workloads


@pytest.mark.parametrize(
    ("line", "ranks", "said"),
    [
        ("deepspeed train.py", 1, " (as 1 rank; --ranks N for more)"),
        ("accelerate launch train.py", 1, " (as 1 rank; --ranks N for more)"),
        ("trl sft", 1, " (as 1 rank; --ranks N for more)"),
        ("torchrun --nproc_per_node gpu train.py", 1, " (as 1 rank; --ranks N for more)"),
        ("deepspeed train.py", 8, ""),
        ("deepspeed --num_gpus 1 train.py", 1, ""),
        ("torchrun train.py", 1, ""),
        ("python train.py", 1, ""),
    ],
)
def test_a_line_that_would_take_every_gpu_and_runs_as_one_rank_says_so(line: str, ranks: int, said: str) -> None:
    assert workloads.unstated_ranks(line, ranks) == said
