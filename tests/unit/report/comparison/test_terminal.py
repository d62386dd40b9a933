"""What a person reads in a terminal, word for word, and that nothing measured can act on it."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.console import Console
from rich.text import Text

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.model import Failed, stack_label
from dsregress.probe.border.wire import Numerics, RunRecord, SavedTensors
from dsregress.report.comparison import terminal
from dsregress.report.context import report_context
from dsregress.report.first_screen import FirstScreen, Overview, OverviewHeading, OverviewRow
from dsregress.report.problem_lines import ProblemSection
from dsregress.report.report_view import report_view
from tests.builders.comparisons import comparison
from tests.builders.synthetic import noisy_record, record, result
from tests.golden_files import Golden


def on_terminal(seen: Comparison, width: int, *, details: bool = True) -> str:
    stream = io.StringIO()
    terminal.show_comparison(
        report_context(seen),
        Console(file=stream, width=width, force_terminal=False, color_system=None),
        details=details,
    )
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_reads_as_expected(width: int, golden: Golden) -> None:
    golden(f"report-{width}.txt", on_terminal(comparison(), width))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_without_details_the_report_is_one_screen(width: int) -> None:
    lines = on_terminal(comparison(), width, details=False).splitlines()
    assert len(lines) <= terminal.MOST_LINES
    assert max(len(line) for line in lines if not line.startswith("Your upgrade: ")) <= width
    assert lines[0] == "Use deepspeed 0.19.8."
    assert lines[1].startswith("deepspeed 0.15.0 to 0.19.8: 1 fault in training, 1 crash")
    assert "ables, evidence, commands: --details, or --html DIR" in " ".join(lines[-2:])


def test_problems_that_have_no_room_are_counted() -> None:
    text = on_terminal(comparison(), 24, details=False)
    assert "more problem" in text
    assert len(text.splitlines()) <= terminal.MOST_LINES + 1  # a first problem is shown whole


def test_a_problem_takes_so_many_lines_and_keeps_its_consequence() -> None:
    for most in (3, 8):
        lines = terminal._cut_lines("word " * 100, "Use 0.16.8.", 40, most)
        assert len(lines) == most
        assert " ".join(lines).endswith("word... Use 0.16.8.")


def test_what_went_wrong_is_cut_only_where_there_is_no_room_for_it() -> None:
    signature = f"ValueError: {'word ' * 24}end"
    results = [result("0.15.0"), result("0.16.4", outcome=Failed("init", signature, signature))]
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    assert "word end" in " ".join(on_terminal(seen, 80, details=False).split())
    assert "word end" not in " ".join(on_terminal(seen, 20, details=False).split())


def test_below_its_title_a_problem_does_not_say_again_that_it_trains_otherwise() -> None:
    runs = [noisy_record(1), noisy_record(1)]
    for run, loss in zip(runs, (1.0, 1.1), strict=True):
        run.ranks[0].numerics = Numerics(losses=[loss])
    results = [result("0.15.0", run=runs[0]), result("0.16.4", run=runs[1])]
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    screen = " ".join(on_terminal(seen, 80, details=False).split())
    assert (
        "TRAINS DIFFERENTLY 1 0.16.4 llama_zero3_backward: the loss of step 1 is 1.1, was 1 (4.5 tolerances)." in screen
    )
    assert "otherwise" not in screen
    assert "training differs from the baseline: the loss" in " ".join(on_terminal(seen, 80).split())


def test_every_section_shows_its_first_problem_before_any_second() -> None:
    screen = report_view(report_context(comparison())).screen
    blocks = {line.number: [Text("line")] * 3 for one in screen.sections for line in one.problems}
    firsts = {section.problems[0].number for section in screen.sections}
    assert len(blocks) > len(firsts)
    assert terminal._shown(screen, blocks, 4 * len(firsts)) == firsts
    assert terminal._shown(screen, blocks, 4 * len(firsts) + 3) > firsts


@pytest.mark.parametrize("each", [2, 3, 5])
def test_every_number_up_to_the_last_one_is_named(each: int) -> None:
    """A problem that has no room is in the details, under the number that its section's title gives."""
    screen = report_view(report_context(comparison())).screen
    numbers = iter(range(1, 99))
    sections = tuple(
        ProblemSection(
            section.heading,
            tuple(msgspec.structs.replace(section.problems[0], number=next(numbers)) for _ in range(each)),
        )
        for section in screen.sections
    )
    lines = [str(line) for line in terminal.first_lines(msgspec.structs.replace(screen, sections=sections), 100)]
    lines = lines[len(lines) - lines[::-1].index("") : -1]  # of the problems
    shown = [int(found[1]) for line in lines if (found := re.match(r" ?(\d+) ", line))]
    titles = [re.search(r"\((\d+)(?: to (\d+))?: --details\)", line) for line in lines]
    left = [number for one in titles if one for number in range(int(one[1]), int(one[2] or one[1]) + 1)]
    assert left
    assert sorted([*shown, *left]) == list(range(1, max(*shown, *left) + 1))


def test_no_section_is_shown_where_a_graver_one_has_no_room() -> None:
    screen = report_view(report_context(comparison())).screen
    first, second, third = (section.problems[0].number for section in screen.sections[:3])
    lines = {first: 1, second: 5, third: 1}
    blocks = {at.number: [Text("line")] * lines.get(at.number, 9) for one in screen.sections for at in one.problems}
    assert terminal._shown(screen, blocks, 2 + 6 - 1) == {first}
    assert {first, second, third} <= terminal._shown(screen, blocks, 2 + 6 + 2)


@pytest.mark.parametrize("width", [40, 80])
def test_columns_that_do_not_fit_are_counted_and_an_overview_without_any_is_not_shown(width: int) -> None:
    overview = Overview(
        headings=(OverviewHeading("", tuple(f"0.{at}.0-0.{at}.9" for at in range(12))),),
        sizes=(10,) * 12,
        rows=(OverviewRow("a label that is long enough to fill forty columns", ("w",), ("CRASH",) * 12),),
        more=0,
    )
    screen = FirstScreen(headline_text="h", basis_text="b", overview=overview, sections=(), upgrade="")
    lines = terminal.first_lines(screen, width)
    text = "\n".join(line.plain for line in lines)
    if width == 40:
        assert "CRASH" not in text
    else:
        assert "and 90 older releases" in text
        (row,) = [line for line in lines if "CRASH" in line.plain]
        assert [str(span.style) for span in row.spans] == ["bold red"] * 3


def test_a_label_without_room_goes_on_below() -> None:
    overview = Overview(
        headings=(OverviewHeading("", tuple(f"0.{at}.0-0.{at}.9" for at in range(12))),),
        sizes=(1,) * 12,
        rows=(OverviewRow("trainer_lora, settings=zero3_scheduler.json and 1 more", ("w",), ("CRASH",) * 12),),
        more=0,
    )
    screen = FirstScreen(headline_text="h", basis_text="b", overview=overview, sections=(), upgrade="")
    lines = [line.plain for line in terminal.first_lines(screen, 80)]
    at = next(at for at, line in enumerate(lines) if "CRASH" in line)
    assert lines[at].startswith("trainer_lora,  ")
    assert lines[at + 1 : at + 3] == ["  settings=zero3_scheduler.json and 1", "  more"]


def test_nothing_worse_is_said_with_what_was_measured() -> None:
    results = [result("0.15.0"), result("0.16.8")]
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    text = on_terminal(seen, 100)
    assert text.startswith("Nothing is worse than the baseline\n2 releases on 1 workload")
    assert "Measured deepspeed 0.15.0, 0.16.8 on 1 workload" in text
    assert "To reproduce problem 1" not in text
    assert "Control: the baseline against itself" in text


@pytest.mark.parametrize("width", [80, 100])
def test_hostile_text_reaches_no_terminal(width: int) -> None:
    text = on_terminal(comparison(), width)
    assert "[red]Boom[/red]" in text  # shown as it is, not obeyed
    assert all(char.isprintable() or char == "\n" for char in text)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", range(40, 121, 8))
def test_no_line_of_a_report_is_a_command_to_a_ci_system(width: int) -> None:
    signature = "RuntimeError: " + "".join(f"{'x' * length} ::error file=a.py::no ##[error]no " for length in range(40))
    failed = result("0.16.4", outcome=Failed("init", signature, signature))
    seen = compare([result("0.15.0"), failed], result("0.15.0").cell.stack.id, Thresholds(), lambda r: None)
    text = on_terminal(seen, width)
    assert "error" in text
    for line in text.splitlines():
        assert not line.strip().startswith("::")
        assert "##[" not in line


def test_a_program_is_called_by_its_launch_line_and_what_all_stacks_have_is_said_once() -> None:
    line = "accelerate launch --config_file zero3.yaml trl/scripts/sft.py --model_name_or_path Qwen/Qwen2.5-7B"
    results = []
    for version, calls in (("0.16.0", 1), ("0.16.4", 3)):
        one = result(version, scenario="sft-c91fa8", variant="base", device="sim", run=noisy_record(1, calls=calls))
        stack = msgspec.structs.replace(
            one.cell.stack,
            versions={**one.cell.stack.versions, "trl": "0.24.0"},
            label=stack_label("", version, {"trl": "0.24.0"}),
        )
        parameters = {"program": line, "gpu": "H100-80G", "world_size": 8}
        results.append(
            msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, stack=stack, parameters=parameters))
        )
        for rank in one.record.ranks if one.record else ():
            rank.phases["backward"].collectives = {"all_gather": [8 * calls, 1 << 20]}
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda _: None)
    assert on_terminal(seen, 100, details=False) == FIRST_SCREEN_OF_A_PROGRAM

    narrow = on_terminal(seen, 60, details=False).splitlines()
    assert "Your upgrade: dsregress audit -r requirements.txt --to 0.16.4" in narrow  # whole, to be pasted


FIRST_SCREEN_OF_A_PROGRAM = """\
Of these releases, use deepspeed 0.16.4.
deepspeed 0.16.0 to 0.16.4: 2 that cost more
2 releases on 1 workload, torch 2.13.0, transformers 4.57.6, trl 0.24.0. 2 of 2 runs passed, 1
compared with 0.16.0, measured 2026-01-01. sft-c91fa8: accelerate launch --config_file zero3.yaml
trl/scripts/sft.py --model_name_or_path Qwen/Qwen2.5-7B. Losses and gradients are not compared in
sim: --device cpu --tiny does.

                                                      0.16.0-0.16.4
accelerate launch ... sft.py --model_..., on H100-80G fits

COSTS MORE
 1 0.16.4  sft-c91fa8: backward makes 600,000 more Python and C calls (3x): 300,000 -> 900,000 (a
           step takes 1.00x).
 2 0.16.4  sft-c91fa8: backward issues 16 more collectives (3x): 8 -> 24.
Your upgrade: dsregress audit -r requirements.txt --to 0.16.4
Tables, evidence, commands: --details, or --html DIR
"""


def test_where_nothing_could_be_simulated_the_first_screen_says_why() -> None:
    limit = "SimulationError: the size of a tensor depends on values that are not known (train.py:12)"
    results = [result(one, outcome=Failed("forward", limit)) for one in ("0.15.0", "0.16.4")]
    said = " ".join(on_terminal(compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None), 80).split())
    assert (
        "2 runs not tested: it cannot be simulated: the size of a tensor depends on values that are not known (train.py:12)."
    ) in said


def test_a_changed_checkpoint_says_what_is_in_it() -> None:
    def saving(*shape: int) -> RunRecord:
        run = record()
        run.ranks[0].saved = [SavedTensors(name="embed.weight", dtype="float32", shape=list(shape), count=1)]
        return run

    results = [result("0.15.0", run=saving(96, 64)), result("0.16.4", run=saving(6144))]
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    said = " ".join(on_terminal(seen, 80, details=False).split())
    assert said.startswith(
        "Of these releases, use deepspeed 0.16.4 only if the change of 1 is right. "
        "deepspeed 0.15.0 to 0.16.4: 1 changed checkpoint"
    )
    assert (
        "SAVES DIFFERENTLY 1 0.16.4 llama_zero3_backward: 1 of 1 tensor in another shape (embed.weight: 6144, was 96x64). "
        "This comparison cannot tell which release is right."
    ) in said
