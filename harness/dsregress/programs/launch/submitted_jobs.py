"""Jobs that a program submits to Slurm with ``submitit``, as ``python run_with_submitit.py --nodes 4 --ngpus 8`` does.

    with run_submitted_jobs(of_a_rank):
        ...  # the program

Within the block this machine looks like one of a Slurm cluster, and what is submitted runs at once, in this process, as the
task that this rank is, with the variables that Slurm gives a task. Of several jobs, the first one runs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dsregress.programs.world.program_errors import CannotRun
from dsregress.programs.world.resource_errors import program_place
from vgpu.replacing import Patches, variables

_JOB = "1"


@contextlib.contextmanager
def run_submitted_jobs(of_a_rank: Mapping[str, str]) -> Iterator[None]:
    """Run submitted jobs within the block, see the module. ``of_a_rank`` are the variables of this rank."""
    if importlib.util.find_spec("submitit") is None:
        yield
        return
    slurm: Any = importlib.import_module("submitit.slurm.slurm")
    local: Any = importlib.import_module("submitit.local.local")

    def run(executor: Any, submissions: Sequence[Any], nodes: int, tasks: int) -> list[Any]:
        _run_as_task(submissions[0], nodes, tasks, of_a_rank)
        return [slurm.SlurmJob(folder=executor.folder, job_id=_JOB, tasks=[0]) for _ in submissions]

    def of_slurm(executor: Any, submissions: Sequence[Any]) -> list[Any]:
        nodes, tasks = int(executor.parameters.get("nodes", 1)), int(executor.parameters.get("ntasks_per_node", 1))
        return run(executor, submissions, nodes, max(1, tasks))

    def of_local(executor: Any, submissions: Sequence[Any]) -> list[Any]:
        return run(executor, submissions, 1, int(executor.parameters.get("tasks_per_node", 1)))

    with Patches("submitted jobs run as the ranks that they are") as patches:
        patches.replace(slurm.SlurmExecutor, "affinity", classmethod(lambda _: 2))
        patches.replace(slurm.SlurmExecutor, "_internal_process_submissions", of_slurm)
        patches.replace(local.LocalExecutor, "_internal_process_submissions", of_local)
        yield


def _run_as_task(submission: Any, nodes: int, tasks: int, of_a_rank: Mapping[str, str]) -> None:
    """Run a submission as this rank. Raise CannotRun if the job has another number of tasks than the run has ranks."""
    ranks = int(of_a_rank.get("WORLD_SIZE", "1"))
    if nodes * tasks != ranks:
        raise CannotRun(f"{program_place()} submits a job of {nodes * tasks} ranks: give --ranks {nodes * tasks}")
    with variables(_of_a_task(nodes, tasks, int(of_a_rank.get("RANK", "0")))):
        submission.function(*submission.args, **submission.kwargs)


def _of_a_task(nodes: int, tasks: int, rank: int) -> dict[str, str]:
    """Return the variables by which Slurm tells a task which one it is, of a job all of whose nodes are this machine."""
    # As Slurm shortens names; each is this machine.
    nodes_of_job = "127.0.0.1" if nodes == 1 else f"127.0.0.[1-{nodes}]"
    return {
        "SLURM_JOB_ID": _JOB,
        "SLURM_JOB_NODELIST": nodes_of_job,
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_LOCALID": str(rank % tasks),
        "SLURM_NNODES": str(nodes),
        "SLURM_NODEID": str(rank // tasks),
        "SLURM_NTASKS": str(nodes * tasks),
        "SLURM_PROCID": str(rank),
        "SUBMITIT_EXECUTOR": "slurm",
    }
