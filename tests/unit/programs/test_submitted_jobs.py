"""What a program submits to Slurm runs as the task that a rank is, with submitit itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import submitit

from dsregress.programs.launch.submitted_jobs import run_submitted_jobs
from dsregress.programs.world.program_errors import CannotRun


def submitted(folder: Path, ranks: int, rank: int, cluster: str | None = None, **asked: Any) -> list[dict[str, Any]]:
    """Submit a job as a rank of a run, and return what its task saw."""
    seen = []

    def train(word: str) -> None:
        task = submitit.JobEnvironment()
        seen.append(
            {
                "word": word, "rank": task.global_rank, "local_rank": task.local_rank, "node": task.node,
                "ranks": task.num_tasks, "nodes": task.num_nodes, "job": task.job_id,
                "hosts": os.environ["SLURM_JOB_NODELIST"],
            }
        )  # fmt: skip

    with run_submitted_jobs({"RANK": str(rank), "WORLD_SIZE": str(ranks)}):
        executor = submitit.AutoExecutor(folder=folder / "%j", cluster=cluster, slurm_max_num_timeout=30)
        executor.update_parameters(timeout_min=60, name="training", **asked)
        job = executor.submit(train, "now")
        assert job.job_id == "1"
    return seen


def test_a_rank_of_several_nodes_runs_its_task_at_once(tmp_path: Path) -> None:
    asked = {"nodes": 4, "tasks_per_node": 8, "slurm_gpus_per_node": 8, "slurm_partition": "learn"}
    assert submitted(tmp_path, 32, 19, **asked) == [
        {
            "word": "now",
            "rank": 19,
            "local_rank": 3,
            "node": 2,
            "ranks": 32,
            "nodes": 4,
            "job": "1",
            "hosts": "127.0.0.[1-4]",
        }
    ]


def test_a_job_of_another_size_is_refused_with_the_number_of_ranks(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"submits a job of 32 ranks: give --ranks 32$"):
        submitted(tmp_path, 1, 0, nodes=4, tasks_per_node=8)


def test_a_job_on_this_machine_runs_as_its_tasks_too(tmp_path: Path) -> None:
    (task,) = submitted(tmp_path, 2, 1, cluster="local", tasks_per_node=2)
    assert (task["rank"], task["ranks"], task["nodes"]) == (1, 2, 1)


def test_of_an_array_of_jobs_the_first_runs(tmp_path: Path) -> None:
    ran: list[int] = []
    with run_submitted_jobs({"RANK": "0", "WORLD_SIZE": "1"}):
        executor = submitit.AutoExecutor(folder=tmp_path)
        with executor.batch():
            jobs = [executor.submit(ran.append, number) for number in range(3)]
    assert ran == [0]
    assert [job.job_id for job in jobs] == ["1", "1", "1"]
