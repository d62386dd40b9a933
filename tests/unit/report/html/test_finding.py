"""The page of a memory finding, with and without explanations; and the commands that a page ends with."""

from __future__ import annotations

import html
import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click
import msgspec
import pytest

from dsregress.advice.attribution import moment_of
from dsregress.cli import cli
from dsregress.compare import Group, Thresholds, compare
from dsregress.model import Result
from dsregress.probe.border.wire import Explanation, Held, Moment, Stretch
from dsregress.report.context import report_context
from dsregress.report.html.holders import ExplanationOf
from dsregress.report.html.site import build_site
from dsregress.store import Explanations, explained_in, key_of
from tests.builders.comparisons import comparison
from tests.builders.explanations import CALLER, KEY, SITE, explained_as_measured, explanation
from tests.builders.synthetic import noisy_record, result

HOSTILE = '</title><script>alert(1)</script>"\u202e'
SVG = "{http://www.w3.org/2000/svg}"


def page(
    folder: Path, start: str = "regression-device_retained_bytes", *, explained: ExplanationOf | None = None
) -> str:
    more = {} if explained is None else {"explained": explained}
    build_site(report_context(comparison(), exit_code=1), folder, **more)
    (file,) = (folder / "finding").glob(f"{start}*")
    return file.read_text(encoding="utf-8")


def picture(text: str) -> ElementTree.Element:
    (drawn,) = re.findall(r'<svg class="picture timeline".*?</svg>', text, re.DOTALL)
    return ElementTree.fromstring(drawn)


def commands(text: str) -> list[str]:
    found = re.findall(r"<dd><pre><code>(.*?)</code></pre></dd>", text, re.DOTALL)
    return [html.unescape(one) for one in found]


def test_where_both_were_explained_the_page_lays_their_live_bytes_over_one_another(tmp_path: Path) -> None:
    drawn = picture(page(tmp_path, explained=explained_as_measured))
    lines = drawn.findall(f"{SVG}polyline")
    assert [line.get("class") for line in lines] == ["line s1", "line s2"]
    texts = [text.text for text in drawn.findall(f"{SVG}text")]
    assert {"forward", "backward", "step"} <= set(texts)
    assert [text for text in texts if text in ("0.15.0", "0.16.0")] == ["0.15.0", "0.16.0"]
    assert "0.16.0: forward peaks at 4.00 MiB and ends at 4.00 MiB" in (drawn.findtext(f"{SVG}desc") or "")


def test_the_picture_needs_nothing_that_the_policy_of_the_page_forbids(tmp_path: Path) -> None:
    text = page(tmp_path, explained=explained_as_measured)
    assert "<style" not in text
    assert " style=" not in text
    rules = (tmp_path / "static" / "style.css").read_text(encoding="utf-8")
    assert ".s1 {" in rules
    assert ".s2 {" in rules


def test_the_places_that_hold_more_are_a_table_and_no_evidence_beside_it(tmp_path: Path) -> None:
    text = re.sub(r"<wbr>|<small>", "", page(tmp_path, explained=explained_as_measured))
    assert "held after backward: 4.00 MiB instead of 1.00 MiB (+3,145,728 B)" in text
    assert "+3,145,728 B 3.00 MiB" in text
    assert SITE in text
    assert CALLER in text
    assert "model.layers.*" in text
    assert "stage3.py:547" not in text  # it holds the same in both


def test_what_the_finding_says_already_of_the_places_is_not_said_twice(tmp_path: Path) -> None:
    line = (
        f"held after backward: 3.00 MiB more gathered parameters at {SITE}, for model.layers.*, called by {CALLER} "
        "(4.00 MiB instead of 1.00 MiB)"
    )
    seen = comparison()
    groups = [
        Group(msgspec.structs.replace(group.headline, evidence=(line, "kept")), group.related) for group in seen.groups
    ]
    with_lines = msgspec.structs.replace(seen, groups=tuple(groups))
    build_site(report_context(with_lines, exit_code=1), tmp_path, explained=explained_as_measured)
    (file,) = (tmp_path / "finding").glob("regression-device_retained_bytes*")
    text = file.read_text(encoding="utf-8")
    assert line not in text
    assert "<li>kept</li>" in text


@pytest.mark.parametrize("who", ["nobody", "0.15.0", "0.16.0"])
def test_where_not_both_were_explained_the_page_draws_what_every_result_has(who: str, tmp_path: Path) -> None:
    def explained(of: Result) -> Explanation | None:
        return explained_as_measured(of) if of.cell.stack.versions["deepspeed"] == who else None

    text = page(tmp_path, explained=explained)
    assert text == page(tmp_path / "without")
    assert "Device memory through one training step" in text
    assert "Live bytes over time" not in text
    assert "Who holds it" not in text


def test_a_release_whose_run_gave_no_explanation_leaves_the_word_to_the_next(tmp_path: Path) -> None:
    def explained(of: Result) -> Explanation | None:
        if of.cell.stack.versions["deepspeed"] == "0.16.0":
            return Explanation(note="its meter keeps no ledger")
        return explained_as_measured(of)

    assert "0.16.4 against 0.15.0, held after backward" in page(tmp_path, explained=explained)


def test_a_finding_that_is_not_about_memory_asks_nobody(tmp_path: Path) -> None:
    text = page(tmp_path, "regression-host_calls", explained=explained_as_measured)
    assert "Live bytes over time" not in text
    assert "Who holds it" not in text


@pytest.mark.parametrize("stretches", [[], [Stretch("forward", [])], [Stretch("forward", [[0, 1], [2]])]])
def test_a_damaged_timeline_is_not_drawn_and_the_places_are_reported(stretches: list[Stretch], tmp_path: Path) -> None:
    def explained(of: Result) -> Explanation | None:
        told = explained_as_measured(of)
        return None if told is None else Explanation(told.moments, stretches)

    text = page(tmp_path, explained=explained)
    assert "Live bytes over time" not in text
    assert "Who holds it" in text


def test_what_an_explanation_says_never_becomes_markup(tmp_path: Path) -> None:
    def explained(of: Result) -> Explanation | None:
        told = explained_as_measured(of)
        if told is None:
            return None
        rows = [
            Held(row.nbytes, 1, HOSTILE, HOSTILE, f"{HOSTILE}{row.category}", [HOSTILE], "")
            for row in told.moments[KEY].held
        ]
        return Explanation({KEY: Moment(0, told.moments[KEY].nbytes, rows)}, [Stretch(HOSTILE, [[0, 1], [9, 2]])])

    text = page(tmp_path, explained=explained)
    assert "<script>" not in text
    assert "\u202e" not in text
    assert text.count("alert(1)") >= 5
    assert any("alert(1)" in (label.text or "") for label in picture(text).findall(f"{SVG}text"))


def test_a_page_is_made_anew_when_its_cells_are_explained(tmp_path: Path) -> None:
    page(tmp_path)
    built = build_site(report_context(comparison(), exit_code=1), tmp_path, explained=explained_as_measured)
    assert 0 < built.written < 5
    assert build_site(report_context(comparison(), exit_code=1), tmp_path, explained=explained_as_measured).written == 0


def test_explanations_are_found_by_the_content_of_a_result_in_any_of_the_folders(tmp_path: Path) -> None:
    one, other = result("0.15.0"), result("0.16.4")
    empty, there = str(tmp_path / "empty"), str(tmp_path / "there")
    assert explained_in([empty, there])(one) is None
    Explanations(there).write(key_of(one), one.cell.id, explanation(8))
    read = explained_in([empty, there])
    assert read(one) == explanation(8)
    assert read(other) is None


def test_the_excess_over_what_is_needed_is_explained_by_what_is_held() -> None:
    assert moment_of("device_excess_bytes", "backward") == moment_of("device_retained_bytes", "backward") == KEY
    assert moment_of("host_calls", "backward") == moment_of("step_time_s", "") == ""


WORKLOAD = ["--scenario", "llama_zero3_backward", "--variant", "gradient_checkpointing=non_reentrant"]


def test_a_page_of_something_worse_ends_with_the_commands_to_run_next(tmp_path: Path) -> None:
    stack = "py3.11-torch2.13.0-transformers4.57.6-deepspeed"
    cell = "llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu"
    workload = shlex.join([*WORKLOAD, "--device", "cpu"])
    assert commands(page(tmp_path)) == [
        f"dsregress explain {stack}0.16.0/{cell} --against {stack}0.15.0/{cell} --svg step.svg",
        f"dsregress bisect {workload} --good 0.15.4 --bad 0.16.0 --metric {KEY}",
        f"dsregress bisect {workload} --good 0.16.8 --bad 0.16.4 --metric {KEY} --fixed",
        "dsregress recommend llama_zero3_backward --variant gradient_checkpointing=non_reentrant",
    ]


def test_what_is_simulated_at_full_size_is_asked_for_remedies_on_its_card(tmp_path: Path) -> None:
    old, new = (result(v, device="sim", run=noisy_record(1, held_mib=m)) for v, m in (("0.15.0", 1), ("0.16.0", 9)))
    for one in (old, new):
        one.cell.parameters.update(gpu="A800-80G")
    build_site(
        report_context(compare([old, new], old.cell.stack.id, Thresholds(), lambda r: None), exit_code=1), tmp_path
    )
    (file,) = (tmp_path / "finding").glob("regression-device_retained_bytes*")
    assert commands(file.read_text(encoding="utf-8"))[-2:] == [
        "dsregress remedies llama_zero3_backward --variant gradient_checkpointing=non_reentrant --device sim "
        "--gpu A800-80G --deepspeed 0.16.0",
        "dsregress recommend llama_zero3_backward --variant gradient_checkpointing=non_reentrant --gpu A800-80G",
    ]


def test_the_command_line_understands_every_command_of_the_site(tmp_path: Path) -> None:
    build_site(report_context(comparison(), exit_code=1), tmp_path)
    printed = [one for file in (tmp_path / "finding").iterdir() for one in commands(file.read_text(encoding="utf-8"))]
    assert len(printed) > 8
    for line in printed:
        program, name, *words = shlex.split(line)
        assert program == "dsregress"
        assert isinstance(cli, click.Group)
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, line
        command.make_context(name, words)  # raises UsageError for an option that there is not


def test_nothing_is_to_be_run_about_what_got_better(tmp_path: Path) -> None:
    results = [result("0.15.0", run=noisy_record(1, held_mib=9)), result("0.16.0", run=noisy_record(1, held_mib=1))]
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    build_site(report_context(seen, exit_code=0), tmp_path)
    pages = list((tmp_path / "finding").glob("improvement-*"))
    assert pages
    assert all(commands(file.read_text(encoding="utf-8")) == [] for file in pages)
