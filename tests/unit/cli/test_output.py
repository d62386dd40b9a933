"""What reaches a terminal or a log: text, in a width that there is."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from dsregress.cli import output
from dsregress.cli.lines import print_note, print_text
from dsregress.cli.output import console, exit_code_of
from dsregress.config.variables import display_environment
from dsregress.errors import ResultsError
from dsregress.model import MachineFault, OutOfMemory, Passed
from dsregress.system.files import write_requested
from tests.paths import SOURCE

HOSTILE = "[bold red]x[/] \x1b[2J\u202e::error::boom"

#: file -> why it may print without `dsregress.cli.output`.
PRINTS = {
    "output.py": "it is its job",
    "comparison_output.py": "JSON that is too long for one text",
    "error_json.py": "JSON, which a program reads",
    "__init__.py": "a line for every error, through `plain`",
    "debug_log.py": "a log on stderr, through `plain`",
    "lines.py": "it is its job",
    "progress.py": "a log on stderr, through `plain`",
    "env.py": "a path for $(...), which nothing may change",
    "update_pins.py": "for maintainers",
}


def test_foreign_text_reaches_the_terminal_in_no_other_way() -> None:
    printing = set()
    for file in (SOURCE / "dsregress" / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "print", "Console"):
                printing.add(file.name)
    assert printing == set(PRINTS)


def test_foreign_text_is_inert_on_stdout_and_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(HOSTILE)
    print_note(HOSTILE)
    out, err = capsys.readouterr()
    assert out == "[bold red]x[/] \\u202e:\\x3aerror::boom\n"
    assert err == f"dsregress: {out}"


@pytest.mark.parametrize(
    ("columns", "width"), [("0", 80), ("-5", 80), ("²", 80), ("wide", 80), ("3", 40), ("120", 120), ("9" * 40, 4000)]
)
def test_tables_are_drawn_whatever_the_width_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    table = Table("phase")
    table.add_row(Text("backward"))
    with monkeypatch.context() as patch:  # pytest itself reads them when it reports
        patch.setenv("COLUMNS", columns)
        patch.setenv("LINES", columns)
        shown = console()
        shown.print(table)
    assert "backward" in capsys.readouterr().out
    assert shown.width == width


def test_only_numbers_are_a_size() -> None:
    assert display_environment({"COLUMNS": "0", "LINES": "10", "TERM": "dumb"}) == {"LINES": "10", "TERM": "dumb"}


def test_what_is_no_file_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe, target, link = (tmp_path / name for name in ("pipe", "target", "link"))
    subprocess.run(["mkfifo", pipe], check=True)
    link.symlink_to(target)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        write_requested(pipe, b"data")
        assert reader.communicate(timeout=10)[0] == b"data"
    assert pipe.is_fifo()
    write_requested(link, [b"da", b"ta"])
    assert target.read_bytes() == b"data"
    assert link.is_symlink()


def test_a_file_that_cannot_be_written_costs_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = [str(tmp_path / name / "a.json") for name in ("one", "two")]
    good = tmp_path / "good.json"
    with pytest.raises(ResultsError, match="one"):
        output.write_answer(
            lambda: "the answer\n", (missing[0], lambda: b"{}"), (missing[1], lambda: b"{}"), (str(good), lambda: "{}")
        )
    assert good.read_text() == "{}"
    out, err = capsys.readouterr()
    assert out == "the answer\n"
    assert err.count("\n") == 1
    assert "two" in err


def test_an_answer_on_cells_that_were_not_all_measured_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    fault = MachineFault("import", "the disk is full", "OSError: [Errno 28]")
    assert exit_code_of([("A/s/base/sim", Passed()), ("B/s/base/sim", OutOfMemory("step"))]) == 0
    assert exit_code_of([("A/s/base/sim", Passed()), ("B/s/base/sim", fault)]) == 3
    assert capsys.readouterr().err == (
        "dsregress: B/s/base/sim: not measured: the disk is full (in import: OSError: [Errno 28]); measure again\n"
    )
