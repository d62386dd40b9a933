"""The time to the first answer, as a user and a workflow of CI wait for it.

Each question is asked of the checked-out version and, with ``--before FOLDER``, of another one in turns: seconds depend on
the machine and on who else uses it, their ratio hardly.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dsregress.errors import EXIT_OK, EXIT_REGRESSION
from dsregress.system.scratch_folders import scratch_folder
from tests.benchmarks import watching
from tests.benchmarks.figures import BenchmarkFigure, measured

_LINE = "torchrun --nproc_per_node 2 train.py --deepspeed zero3.json --output_dir out --bf16 true"
_PROGRAM = ("--program", _LINE, "--rounds", "0", "--device", "sim")

#: A framework whose source is on the index, and what its tests have besides.
_FRAMEWORK, _RELEASE, _BESIDE = "trl", "1.16.0", ("--with", "requests")

_GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A command that somebody waits for."""

    what: str
    arguments: tuple[str, ...]
    folder: Path
    goal_s: int
    variables: Mapping[str, str] = {}
    is_cold: bool = False  #: with caches that are empty each time
    changed: Path | None = None  #: a file that is another one each time, as each pull request changes something else


def run(
    variables: Mapping[str, str], root: Path, before: Path | None, releases: tuple[str, str], repeats: int
) -> Iterator[BenchmarkFigure]:
    """Ask everything ``repeats`` times, after once to fill caches, and yield time, processor time, and the ratio to the
    version ``before``. ``releases`` of DeepSpeed are compared."""
    with scratch_folder() as folder:
        shutil.copytree(root / "scenarios" / "programs" / "trainer_lora", folder / "program")
        (folder / "program" / "requirements.txt").write_text(f"deepspeed=={releases[0]}\n")
        for question in _questions(root, folder, releases):
            versions = {"this version": root, **({"before": before} if before else {})}
            costs: dict[str, list[watching.Cost]] = {name: [] for name in versions}
            for turn in range(repeats + (not question.is_cold)):
                for name, checkout in versions.items():
                    cost = _ask(question, checkout, variables, turn)
                    if question.is_cold or turn:
                        costs[name].append(cost)
            section = question.what
            for name, own in costs.items():
                goal = f"under {question.goal_s}" if name == "this version" else ""
                yield measured(section, f"{name}: time", [cost.wall_s for cost in own], "s", goal)
                yield measured(section, f"{name}: processor time", [cost.cpu_s for cost in own], "s")
            if before:
                pairs = zip(costs["this version"], costs["before"], strict=True)
                yield measured(
                    section, "processor time over before", [one.cpu_s / other.cpu_s for one, other in pairs], "x"
                )


def _questions(root: Path, folder: Path, releases: tuple[str, str]) -> Iterator[Question]:
    program = folder / "program"
    yield Question(
        what="audit of a job's requirements, to the newest releases",
        arguments=("audit", "--requirement", "requirements.txt", "--program", _LINE, "--to", releases[1]),
        folder=program,
        goal_s=2,
    )
    compared = ("--deepspeed", ",".join(releases), "--baseline", releases[0])
    yield Question(
        what="one's own program in two releases that are built, sim",
        arguments=("regress", *_PROGRAM, *compared),
        folder=program,
        goal_s=40,
    )
    clone = _made_clone(folder / "clone")
    yield Question(
        what=f"a pull request of {_FRAMEWORK}, its merge base built",
        arguments=("regress", "--source", ".", "--against", "main", "--rounds", "0", *_BESIDE),
        folder=clone,
        goal_s=60,
        changed=clone / _FRAMEWORK / "trainer" / "sft_config.py",
    )
    yield Question(
        what="the same program from nothing: empty caches",
        arguments=("regress", *_PROGRAM, *compared),
        folder=program,
        goal_s=240,
        is_cold=True,
    )


def _ask(question: Question, checkout: Path, variables: Mapping[str, str], turn: int) -> watching.Cost:
    """Ask once. Results before it are not there, so that everything is measured."""
    if question.changed is not None:
        with question.changed.open("a") as file:
            file.write(f"# {checkout.name} {turn}\n")
    with scratch_folder() as folder:
        own = {**variables, "PYTHONPATH": str(checkout / "harness"), "DSREGRESS_RESULTS": str(folder / "results")}
        if question.is_cold:
            own |= {"DSREGRESS_ENVIRONMENTS": str(folder / "environments"), "UV_CACHE_DIR": str(folder / "uv")}
        cost = watching.run([sys.executable, "-m", "dsregress", *question.arguments], own, str(question.folder))
    assert cost.exit_code in (EXIT_OK, EXIT_REGRESSION), f"{question.what}: ended with exit code {cost.exit_code}"
    return cost


def _made_clone(folder: Path) -> Path:
    """Return a repository whose branch ``main`` is a release's source, with another branch checked out."""
    folder.mkdir()
    wanted = f"{_FRAMEWORK}=={_RELEASE}"
    options = ("--no-deps", "--no-binary", ":all:", "--quiet", "--dest", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "download", *options, wanted], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (clone,) = (path for path in folder.iterdir() if path.is_dir())
    as_branch(clone, wanted)
    return clone


def as_branch(folder: Path, message: str) -> None:
    """Make ``folder`` a repository whose branch ``main`` is what is there, with the branch ``change`` checked out."""
    commit, checkout = ("commit", "-q", "-m", message), ("checkout", "-q", "-b", "change")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), commit, checkout):
        subprocess.run([*_GIT, *command], cwd=folder, check=True)
