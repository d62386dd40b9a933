"""`audit --against`: what a pull request's lock files change, and the comment on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dsregress.cli import cli
from dsregress.report.answers.audit_comment import MOST_LINES, comment_text
from tests.packages.history import git

OLD = "deepspeed==0.16.8\ntorch==2.13.0\ntransformers==4.57.6\npeft==0.19.1\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a job of its own, on a branch that may change its requirements."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "requirements.txt").write_text(OLD)
    settings = {"zero_optimization": {"stage": 3}, "gradient_clipping": 1.0, "bf16": {"enabled": True}}
    (tmp_path / "ds.json").write_text(json.dumps(settings))
    (tmp_path / "dsregress.toml").write_text(
        '[tool.dsregress.job]\nprogram = "torchrun --nproc_per_node 8 train.py --use_peft --deepspeed ds.json"\n'
        'packages = ["requirements.txt"]\ncard = "A100-40G"\n'
    )
    (tmp_path / "train.py").write_text("from trl import SFTTrainer\nSFTTrainer()\n")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Train")
    git(tmp_path, "checkout", "--quiet", "-b", "bump")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments], standalone_mode=False)


def test_a_bump_is_judged_from_the_branch_to_the_files_as_they_are(repository: Path) -> None:
    (repository / "requirements.txt").write_text(OLD.replace("0.16.8", "0.19.8"))
    said = audit("--against", "main", "--markdown", "comment.md")
    assert said.stdout.startswith(
        "deepspeed 0.16.8 -> 0.19.8: yes, if you use torch 2.9.1, put a `scheduler` into the "
    )
    comment = (repository / "comment.md").read_text()
    assert comment.startswith("**dsregress: deepspeed 0.16.8 -> 0.19.8: yes, if you use torch 2.9.1, put a ")
    assert (
        "- DSR-2026-0015 crashes: LoRA with Trainer under DeepSpeed ends in torch's schedule: zip() argument 2"
        in comment
    )
    assert len(comment.splitlines()) <= MOST_LINES
    assert said.return_value == 1


def test_a_change_of_no_package_is_no_comment(repository: Path) -> None:
    (repository / "train.py").write_text("")
    said = audit("--against", "main", "--markdown", "comment.md")
    assert (said.return_value, said.stdout) == (0, "no package that is known changes since main\n")
    assert (repository / "comment.md").read_text() == ""


def test_without_a_file_that_pins_the_job_is_audited_as_it_is(repository: Path) -> None:
    text = (repository / "dsregress.toml").read_text()
    (repository / "dsregress.toml").write_text(text.replace('"requirements.txt"', '"deepspeed==0.16.8"'))
    said = audit("--against", "main")
    assert said.stdout.splitlines()[0].endswith("by what was not stated")
    assert said.stderr.splitlines()[-1] == (
        "dsregress: no file pins packages, so that no change can: the job is audited as it is"
    )


def test_the_configured_job_is_what_options_would_state(repository: Path) -> None:
    given = audit(
        "-r", "requirements.txt", "--gpu", "A100-40G",
        "--program", "torchrun --nproc_per_node 8 train.py --use_peft --deepspeed ds.json",
    )  # fmt: skip
    assert audit().stdout == given.stdout


def test_a_long_comment_is_cut_where_it_says_so() -> None:
    comment = comment_text("no", [f"reason {number}" for number in range(40)], ["costs: 1"])
    lines = comment.splitlines()
    assert len(lines) == MOST_LINES
    assert lines[-3:] == ["- reason 10", "- and 29 more", "- costs: 1"]
