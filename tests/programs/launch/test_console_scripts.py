"""Commands that packages install, and the launchers that they start."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from dsregress.probe.launch_line import LaunchLine, LaunchLineError
from dsregress.programs.launch import console_scripts

pytest.importorskip("torch.multiprocessing.spawn")
pytest.importorskip("accelerate")

from dsregress.programs.launch.started_processes import StartedProcesses, watch_processes


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a command of this body, and returns what it hands over; None where it ends by itself."""

    def run(body: str) -> LaunchLine | None:
        package = tmp_path / "a_package_with_a_command"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "cli.py").write_text(f"import os, subprocess, sys\ndef main():\n    {body}\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "argv", ["x", "train", "cfg.yaml"])
        try:
            with watch_processes() as others, contextlib.suppress(SystemExit), console_scripts.handing_over(others):
                console_scripts.run_command("acommand", "a_package_with_a_command.cli:main")
        except console_scripts.HandedOver as handed_over:
            return handed_over.what
        return None

    yield run
    for name in ("a_package_with_a_command", "a_package_with_a_command.cli"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "starts",
    [
        'subprocess.run(["accelerate", "launch", "--num_processes", "2", "-m", "a.train", sys.argv[2]], check=True)',
        'subprocess.run("accelerate launch --num_processes 2 -m a.train cfg.yaml", shell=True)',
        'os.execvpe("x", ["accelerate", "launch", "--num_processes", "2", "-m", "a.train", "cfg.yaml"], os.environ)',
        'os.system("accelerate launch --num_processes 2 -m a.train cfg.yaml")',
    ],
)
def test_the_launcher_that_it_starts_goes_on_in_its_place(command, starts: str) -> None:
    line = command(starts)
    assert (line.launcher, line.program, line.arguments) == ("accelerate", "a.train", ("cfg.yaml",))
    assert line.is_module
    assert line.variables == ()


def test_torchruns_function_is_its_line(command) -> None:
    line = command(
        "from torch.distributed.run import get_args_parser, run; "
        'run(get_args_parser().parse_args(["--nproc_per_node", "2", "recipe.py", "--config", "a b"]))'
    )
    assert (line.launcher, line.program, line.arguments) == ("torchrun", "recipe.py", ("--config", "a b"))


def test_variables_that_it_sets_for_the_ranks_are_theirs(command) -> None:
    line = command('subprocess.run([sys.executable, "train.py"], env={**os.environ, "PACKED": "1"})')
    assert (line.launcher, line.program, line.variables) == ("python", "train.py", (("PACKED", "1"),))


@pytest.mark.parametrize(
    "does",
    [
        'subprocess.run([sys.executable, "-m", "pip", "--version"])',
        'subprocess.run([sys.executable, "-c", "1"])',
        'subprocess.check_output([sys.executable, "--version"])',
        "return 0",
    ],
)
def test_other_processes_run(command, does: str) -> None:
    assert command(does) is None


def test_processes_are_not_handed_over_afterwards() -> None:
    others = StartedProcesses()
    with console_scripts.handing_over(others):
        pass
    others.seen_by(["torchrun", "train.py"], None)
    assert subprocess.run(["true"], check=True).returncode == 0


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project.scripts]\nacommand = "a.cli:main"\n'),
        ("pyproject.toml", '[project]\nscripts.acommand = "a.cli:main"\n'),
        ("setup.py", "setup(entry_points={'console_scripts': ['acommand=a.cli:main']})"),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n    acommand = a.cli:main\n"),
    ],
)
def test_the_project_in_the_folder_has_commands_as_after_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert console_scripts.entry_point_of("acommand") == "a.cli:main"
    with pytest.raises(LaunchLineError, match="no file and no installed command is called 'command'"):
        console_scripts.entry_point_of("command")


def test_an_installed_command_is_found() -> None:
    assert console_scripts.entry_point_of("torchrun") == "torch.distributed.run:main"
