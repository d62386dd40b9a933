"""A stored result may name a card that this version does not know: it is shown without a verdict on the card."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dsregress import cli
from dsregress.errors import EXIT_OK
from dsregress.model import Result
from dsregress.store import Store
from tests.builders import synthetic


def simulated(version: str, scenario: str, gpu: str) -> Result:
    run = synthetic.record(ranks=1, rounds=0)
    one = synthetic.result(version, scenario=scenario, variant="base", device="sim", run=run)
    parameters = {**one.cell.parameters, "gpu": gpu, "world_size": 8, "dtype": "bf16"}
    return msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, parameters=parameters))


@pytest.fixture(autouse=True)
def _stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("deepspeed==0.15.0\n")
    store = Store("results")
    for version in ("0.15.0", "0.16.4"):
        store.write(simulated(version, "known", "A100-80G"))
        store.write(simulated(version, "newer", "RTX-7090"))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.run_command_line(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == EXIT_OK, err
    assert "no such GPU" not in err
    return out + err


NOTE = "whether it fits its card is not said: RTX-7090 is not known here (newer/base/sim)"


def test_a_report_says_so_once_and_judges_the_other_cards(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = said(capsys, "report", "--markdown", "report.md", "--json", "report.json", "--html", "site")
    written = (tmp_path / "report.md").read_text()
    assert written.count(f"- {NOTE}\n") == 1
    assert NOTE in (tmp_path / "site" / "method.html").read_text()
    assert "| 0.16.4 |" in written
    assert "A100-80G" in written
    assert "fits" in shown


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "0.15.0", "0.16.4"),
        ("upgrade", "--from", "requirements.txt", "--to", "0.16.4"),
        ("stacks",),
    ],
    ids=lambda command: command[0],
)
def test_other_commands_answer_as_well(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, *command, "--results", "results")


def test_show_says_so_of_the_cell(capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "show", "*0.16.4*", "--results", "results")
    assert "no statement about its card: unknown card RTX-7090" in shown
