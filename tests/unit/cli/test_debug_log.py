"""The debug log: what ``-v`` adds to stderr, and to nothing else."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dsregress import cli
from dsregress.cli.debug_log import start_debug_log, stop_debug_log
from dsregress.store import Store
from tests.builders.synthetic import stored_result

_TIME = re.compile(r"^\d\d:\d\d:\d\d\.\d{3} ", re.MULTILINE)

RunReport = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunReport:
    """Run commands in a folder with results; exit code, stdout, stderr with TIME for each time."""
    (tmp_path / "pyproject.toml").write_text('[tool.dsregress]\nbaseline = "0.16.4"\n')
    Store(str(tmp_path / "results")).write(stored_result())
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            cli.run_command_line(arguments)
        captured = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code, captured.out, _TIME.sub("TIME ", captured.err)

    return run


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_the_log_is_on_stderr_where_it_is_asked_for_before_a_command_or_after_it(
    report: RunReport, option: str
) -> None:
    silent = report("report", "--markdown", "report.md")
    assert silent[2] == ""
    logged = (*silent[:2], "TIME dsregress.system: wrote report.md\n")
    assert report(option, "report", "--markdown", "report.md") == logged
    assert report("report", "--markdown", "report.md", option) == logged
    assert report(option, "report", "--markdown", "report.md", option) == logged
    assert report("report", "--markdown", "report.md") == silent


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_takes_verbose_before_its_name_and_after_it(report: RunReport, command: str) -> None:
    assert report("-v", command, "--help")[0] == report(command, "--verbose", "--help")[0] == 0


def test_what_a_measured_environment_named_cannot_act_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    start_debug_log()
    try:
        logging.getLogger("dsregress.launch").debug("%s", "a\x1b[31m\n::error ::b")
    finally:
        stop_debug_log()
    assert _TIME.sub("", capsys.readouterr().err) == "dsregress.launch: a :\\x3aerror ::b\n"
