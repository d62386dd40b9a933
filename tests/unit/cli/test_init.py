"""`init`: what it writes into a repository, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dsregress.cli import cli
from dsregress.config.settings import read_settings
from dsregress.errors import NothingMeasured
from dsregress.versions.releases import known_releases

WORKFLOWS = (".github/workflows/dsregress-comment.yml", ".github/workflows/dsregress.yml")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "README.md").write_text("```\ndeepspeed --num_gpus 2 train.py --deepspeed_config ds.json\n```\n")
    (tmp_path / "train.py").write_text("import deepspeed, datasets\ndeepspeed.initialize()\n")
    (tmp_path / "requirements.txt").write_text("deepspeed==0.16.8\ntorch==2.9.1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["init", *arguments], standalone_mode=False)


def files(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


def test_a_job_is_written_down_and_what_to_run_is_said(repository: Path) -> None:
    said = init()
    assert (repository / "dsregress.toml").read_text() == (
        "[tool.dsregress.job]\n"
        'program = "deepspeed --num_gpus 2 train.py --deepspeed_config ds.json"\n'
        'packages = ["requirements.txt"]\n'
        'with = ["datasets"]\n'
        "synthetic_data = true\n"
    )
    lines = said.stdout.splitlines()
    assert lines[:3] == [
        "found in README.md: deepspeed --num_gpus 2 train.py --deepspeed_config ds.json",
        "  a configuration of one's own (train.py: deepspeed.initialize)",
        "  two ranks (--program: deepspeed)",
    ]
    assert lines[-5:] == [
        "run it once here:",
        "    dsregress audit",
        "    dsregress regress",
        "keep .dsregress/ and results/ out of git",
        "in .github/workflows, replace OWNER by the account that publishes the action",
    ]
    assert read_settings(start=repository, environ={}).job.added == ("datasets",)


def test_the_workflows_have_at_most_twenty_lines(repository: Path) -> None:
    init()
    for file in WORKFLOWS:
        assert len((repository / file).read_text().splitlines()) <= 20


def test_a_dry_run_says_the_same_and_writes_nothing(repository: Path) -> None:
    before = files(repository)
    said = init("--dry-run")
    assert files(repository) == before
    assert "would write dsregress.toml:\n    [tool.dsregress.job]\n" in said.stdout


def test_a_pyproject_keeps_every_byte_and_gets_the_table(repository: Path) -> None:
    text = '[project]\nname = "mine"   # a comment\n\n\n'
    (repository / "pyproject.toml").write_text(text)
    init()
    written = (repository / "pyproject.toml").read_text()
    assert written.startswith(f"{text.rstrip()}\n\n[tool.dsregress.job]\nprogram = ")
    assert not (repository / "dsregress.toml").exists()


def test_a_second_call_changes_nothing(repository: Path) -> None:
    init()
    before = {file: (repository / file).read_bytes() for file in files(repository)}
    said = init()
    assert {file: (repository / file).read_bytes() for file in files(repository)} == before
    assert "dsregress.toml has settings of dsregress already: they stay as they are" in said.stdout
    assert f"{WORKFLOWS[0]} is there already: it stays as it is" in said.stdout


def test_settings_and_workflows_that_are_there_stay(repository: Path) -> None:
    (repository / "pyproject.toml").write_text("[tool.dsregress]\nrounds = 3\n")
    workflow = repository / WORKFLOWS[1]
    workflow.parent.mkdir(parents=True)
    workflow.write_text("name: mine\n")
    init()
    assert (repository / "pyproject.toml").read_text() == "[tool.dsregress]\nrounds = 3\n"
    assert workflow.read_text() == "name: mine\n"


def test_a_line_of_the_users_own_is_taken(repository: Path) -> None:
    init("--program", "torchrun --nproc_per_node 4 train.py")
    assert '"torchrun --nproc_per_node 4 train.py"' in (repository / "dsregress.toml").read_text()


def test_a_secret_is_not_written_down(repository: Path) -> None:
    with pytest.raises(Exception, match="the launch line has a secret in it"):
        CliRunner().invoke(
            cli,
            ["init", "--program", "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz1234567890 torchrun train.py"],
            standalone_mode=False,
            catch_exceptions=False,
        )
    assert not (repository / "dsregress.toml").exists()


def test_a_repository_without_a_program_gets_nothing(repository: Path) -> None:
    (repository / "README.md").write_text("A library.\n")
    said = init()
    assert isinstance(said.exception, NothingMeasured)
    assert not (repository / ".github").exists()
    assert str(said.exception) == (
        f"{repository.name}: no launch line of a program that is here was found; give it with --program 'LINE'"
    )


def test_a_framework_gets_the_workflow_that_measures_its_changes(repository: Path) -> None:
    (repository / "setup.py").write_text('setup(name="deepspeed")\n')
    said = init()
    assert "&& 'nightly' || 'change' }}" in (repository / WORKFLOWS[1]).read_text()
    assert "    dsregress regress --source . --against origin/main" in said.stdout.splitlines()
    assert not (repository / "dsregress.toml").exists()


@pytest.mark.slow
def test_the_stack_is_the_jobs_own_beside_the_newest(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSREGRESS_ENVIRONMENTS", str(repository / "environments"))
    (repository / "train.py").write_text("import deepspeed\n")
    (repository / "requirements.txt").write_text("deepspeed==0.16.8\n")
    init()
    said = CliRunner().invoke(cli, ["regress", "--dry-run"], standalone_mode=False)
    cells = [line for line in said.stdout.splitlines() if "/train-" in line]
    newest = known_releases("deepspeed")[-1]
    assert [f"deepspeed{release}/train-" in cell for release, cell in zip(("0.16.8", newest), cells, strict=True)] == [
        True,
        True,
    ]
    assert all(cell.endswith("/base/sim") for cell in cells)


def test_clean_keeps_the_environments_of_the_job(repository: Path) -> None:
    init()
    folder = repository / ".dsregress" / "envs"
    of_job = "torch2.9.1-transformers5.24.0-accelerate1.15.0-peft0.21.2-deepspeed0.16.8-datasets5.2.0-0123456789ab-cpu"
    python = read_settings(start=repository, environ={}).python
    for name in (f"py{python}-{of_job}", f"py{python}-{of_job.replace('0.16.8', '0.15.4')}"):
        (folder / name).mkdir(parents=True)
    said = CliRunner().invoke(cli, ["clean", "--dry-run"], standalone_mode=False)
    assert [line.split(":")[0] for line in said.stdout.splitlines()] == [
        f"would remove envs/py{python}-{of_job.replace('0.16.8', '0.15.4')}", "0 B would be free",
    ]  # fmt: skip
