"""What a person reads, word for word, and that nothing measured can act on the reader's terminal or page."""

from __future__ import annotations

import io
import json
import os
import random
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from harness.compare import Comparison, Thresholds, compare, pairs
from harness.compare.summary import measured
from harness.errors import ResultsError
from harness.model import Failed, Result, Skipped, Stack
from harness.probe.border.wire import Detail, RunRecord
from harness.report.comparison import json as json_report
from harness.report.comparison import markdown, terminal
from harness.report.plain import markdown as inert
from harness.report.plain import plain
from harness.report.view import fits, reproduce
from tests import synthetic
from tests.synthetic import MIB, result

GOLDEN = Path(__file__).parents[2] / "golden"

#: Set to write the expected reports anew; read the difference before committing it.
UPDATE = "DSREGRESS_UPDATE_GOLDEN" in os.environ

HOSTILE = "[red]Boom[/red] \x1b[31m\x1b]0;owned\x07<script>alert(1)</script> | `x` @all\nhttps://evil.example \u202egnp"


def run(seed: int, *, held_mib: int = 0, calls: int = 1, step_s: float = 0.5) -> RunRecord:
    record = synthetic.record(rng=random.Random(seed), step_s=step_s)
    for rank in record.ranks:
        rank.phases["backward"].device_retained_bytes += held_mib * MIB
        rank.phases["backward"].device_peak_bytes += held_mib * MIB
        rank.phases["step"].device_peak_bytes += held_mib * MIB
        rank.phases["backward"].host_calls *= calls
    return record


def example() -> list[Result]:
    """One of each kind of finding."""
    old, new = {"configuration": "a", "warnings": "x"}, {"configuration": "b", "warnings": "x"}
    wrong = run(7)
    assert wrong.ranks[0].numerics is not None
    wrong.ranks[0].numerics.parameter_error = 12.5
    wrong.ranks[0].numerics.note = "furthest: model.layers.0.mlp.up_proj.weight"
    return [
        result("0.15.0", run=run(1, held_mib=1), detail_sha256=old),
        result("0.15.4", run=run(2, held_mib=1), detail_sha256=old),
        result("0.16.0", run=run(3, held_mib=4), detail_sha256=new),
        result("0.16.4", run=run(4, held_mib=4, calls=3), detail_sha256=new),
        result("0.16.8", run=run(5, step_s=0.7), detail_sha256=new),
        result("0.17.0", outcome=Failed("init", HOSTILE, f"Traceback\n{HOSTILE}")),
        result("0.17.6", run=wrong),
        result("0.18.9", outcome=Skipped("needs a GPU")),
        result("0.19.8", run=run(8, held_mib=1), session="another"),
    ]


def comparison() -> Comparison:
    results = example()
    details = {
        "0.15.0": Detail(configuration={"zero.overlap_comm": None}, host_functions={"backward": {"engine.py:hook": 7}}),
        "0.16.0": Detail(configuration={"zero.overlap_comm": True}),
        "0.16.4": Detail(
            configuration={"zero.overlap_comm": True}, host_functions={"backward": {"engine.py:hook": 600_007}}
        ),
    }
    return compare(
        results, results[0].cell.stack.id, Thresholds(), lambda r: details.get(r.cell.stack.versions["deepspeed"])
    )


def on_terminal(seen: Comparison, width: int) -> str:
    stream = io.StringIO()
    terminal.show(seen, Console(file=stream, width=width, force_terminal=False, color_system=None))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("report-80.txt", lambda seen: on_terminal(seen, 80)),
        ("report-120.txt", lambda seen: on_terminal(seen, 120)),
        ("report.md", markdown.render),
        ("report.json", lambda seen: json.dumps(json.loads(json_report.render(seen, 1)), indent=1) + "\n"),
    ],
)
def test_the_report_reads_as_expected(name: str, made: object) -> None:
    assert callable(made)
    text = made(comparison())
    if UPDATE:
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_nothing_worse_is_said_with_what_was_measured() -> None:
    results = [result("0.15.0"), result("0.16.8")]
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    text = on_terminal(seen, 100)
    assert text.startswith("Nothing is worse than the baseline\nMeasured deepspeed 0.15.0, 0.16.8 on 1 workload")
    assert "To see the worst again" not in text
    assert "Control: the baseline against itself" in text


def test_json_has_at_least_the_promised_keys() -> None:
    report = json.loads(json_report.render(comparison()))
    assert report["schema"] == 1
    assert report["baseline"].endswith("deepspeed0.15.0")
    assert report["stacks"][0].keys() >= {"id", "versions"}
    cell = report["cells"][0]
    assert cell.keys() >= {"id", "stack", "scenario", "variant", "device", "outcome", "stage", "signature", "metrics"}
    assert cell["metrics"].keys() >= {"backward.device_peak_bytes", "step_time_s", "init_s", "loss_error"}
    promised = {"cell", "stack", "scenario", "variant", "device", "metric", "phase", "kind", "value", "baseline_value"}
    for found in report["findings"]:
        assert found.keys() >= promised | {"ratio", "unit", "significant", "relevant", "message"}
    assert {found["kind"] for found in report["findings"]} == {
        *("regression", "improvement", "changed", "wrong", "failed"),
    }


def test_json_has_every_finding_and_marks_the_headlines() -> None:
    seen = comparison()
    report = json.loads(json_report.render(seen))
    assert len(report["findings"]) == len(seen.findings)
    assert sum(found["headline"] for found in report["findings"]) == len(seen.groups)


def test_a_json_report_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="give --json another place"):
        json_report.write(comparison(), tmp_path / "nowhere" / "report.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ResultsError):
        json_report.write(comparison(), tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("width", [80, 100])
def test_hostile_text_reaches_no_terminal(width: int) -> None:
    text = on_terminal(comparison(), width)
    assert "[red]Boom[/red]" in text  # shown as it is, not obeyed
    assert all(char.isprintable() or char == "\n" for char in text)
    assert max(map(len, text.splitlines())) <= width


def test_hostile_text_is_inert_in_markdown() -> None:
    text = markdown.render(comparison())
    assert "<script" not in text
    assert "`x`" not in text
    assert "https://" not in text
    assert "@all" not in text
    columns = {line.count(" | ") for line in text.splitlines() if line.startswith("| 0.17.0 | llama")}
    assert columns == {3}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\r\nb\tc", "a b c"),
        ("\x07\x9b31m", "\\x07"),
        ("\u202eabc", "\\u202eabc"),
        ("plain, with ümlaut", "plain, with ümlaut"),
    ],
)
def test_plain_text_is_one_printable_line(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_names_keep_their_underscores_in_markdown() -> None:
    assert inert("llama_zero3_backward _x_") == "llama_zero3_backward &#95;x&#95;"


def test_the_command_that_shows_it_again_names_the_stack_that_the_pins_are_from() -> None:
    def of(version: str) -> Stack:
        return Stack(python="3.11", versions={"torch": "2.5.1", "deepspeed": version}, label=f"old-pins: {version}")

    finding = pairs.finding(
        *("", "fit/base/cpu"),
        metric="host_calls",
        phase="step",
        kind="regression",
        value=2,
        baseline_value=1,
        ratio=2,
        unit="calls",
        significant=True,
        relevant=True,
        message="",
    )
    assert reproduce(of("0.16.3"), of("0.15.0"), finding) == (
        "nox -s regress -- --stack old-pins --deepspeed 0.15.0,0.16.3 --baseline 0.15.0 "
        "--scenario fit --variant base --device cpu --fresh"
    )
    other = Stack(python="3.11", versions={"torch": "2.13.0", "deepspeed": "0.15.0"}, label="0.15.0")
    assert reproduce(of("0.16.3"), other, finding) == (
        "nox -s regress -- --stack old-pins --deepspeed 0.16.3 --scenario fit --variant base --device cpu --fresh"
    )


def test_what_a_generation_engine_keeps_of_the_card_is_not_there_for_the_job() -> None:
    def verdict(share: float) -> str:
        run = synthetic.record()
        for rank in run.ranks:
            rank.phases["backward"].device_peak_bytes = 30 << 30
        one = result(device="sim", run=run)
        cell = msgspec.structs.replace(one.cell, parameters={"gpu_memory_utilization": share})
        return fits(measured(msgspec.structs.replace(one, cell=cell)), "A100-80G")

    assert (verdict(0.0), verdict(0.5), verdict(0.7)) == ("fits", "fits", "OUT OF MEMORY in backward")
