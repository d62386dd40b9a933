"""What each remedy buys: what is run, how the combination is searched, and the words that a person reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import pytest
from click.testing import CliRunner

from dsregress.advice import gpus, remedy_cases
from dsregress.cli import cli
from dsregress.cli.output import exit_code_of
from dsregress.errors import EXIT_HARNESS, UsageError
from dsregress.model import Cell, Failed, MachineFault, Outcome, Passed, Result, Stack
from dsregress.probe.border.wire import RankRecord, RunRecord
from dsregress.probe.scenario import Scenario
from dsregress.report.answers import remedies_answer as remedies_report
from tests.builders.cells import result_of
from tests.golden_files import Golden
from vgpu.figures import PhaseReading

GIB = 1 << 30
STACK = Stack(python="3.11", versions={"deepspeed": "0.16.4"}, label="0.16.4")
PARAMETERS = {
    "world_size": 32, "sequence_length": 2048, "dtype": "bf16", "offload": False, "checkpointing": "non_reentrant",
    "expandable": False,
}  # fmt: skip
SCENARIO = Scenario(
    version=1,
    summary="",
    framework="f",
    parameters=PARAMETERS,
    devices={"sim": {}, "cpu": {"sequence_length": 64, "world_size": 2}},
    remedies={
        "offload": {"offload": True},
        "reentrant": {"checkpointing": "reentrant"},
        "short": {"sequence_length": 1024},
        "half the ranks": {"world_size": 16},
        "expandable": {"expandable": True},
        "fp32": {"dtype": "fp32"},
        "bf16": {"dtype": "bf16"},
    },
    pins={"pin 0.15.0": {"deepspeed": "0.15.0"}, "pin 0.16.4": {"deepspeed": "0.16.4"}},
)


def bytes_of(cell: Cell) -> tuple[int, int, int]:
    """On the device in backward and in step, and on the host. 0.16.4 leaks 120 GiB without reentrant checkpointing."""
    told = cell.parameters
    states = 1280 * GIB // told["world_size"]
    host = states // 2 if told["offload"] else GIB
    kept = states // 2 if told["offload"] else states
    leak = 120 * GIB if cell.stack.versions["deepspeed"] == "0.16.4" and told["checkpointing"] != "reentrant" else 0
    return kept + 4 * GIB * told["sequence_length"] // 2048 + leak, states, host


def behave(cell: Cell) -> tuple[Outcome, RunRecord | None]:
    if cell.parameters["dtype"] == "fp32":
        return Failed(stage="init", signature="ValueError: flash attention has no fp32"), None
    backward, step, host = bytes_of(cell)
    flops = 312 * 10**12 * (4 if cell.parameters["checkpointing"] == "reentrant" else 3)
    phases = {
        "init": PhaseReading(device_peak_bytes=GIB, host_peak_bytes=GIB),
        "forward": PhaseReading(device_peak_bytes=2 * GIB, flops=10**12, collectives={"all_gather": [2, 32 * GIB]}),
        "backward": PhaseReading(device_peak_bytes=backward, device_retained_bytes=backward - GIB, flops=flops),
        "step": PhaseReading(device_peak_bytes=step // 4, host_peak_bytes=host),
    }
    ranks = [RankRecord(rank=0, phases=phases)]
    rounds = [0.5, 0.7, 0.6] if cell.device == "cpu" else []
    return Passed(), RunRecord(outcome="passed", world_size=1, ranks=ranks, round_s=rounds)


class RecordedRuns:
    """Remembers what was run."""

    def __init__(self, behaviour: Callable[[Cell], tuple[Outcome, RunRecord | None]] = behave) -> None:
        self.behaviour = behaviour
        self.ran: list[str] = []

    def run(self, cells: Sequence[Cell]) -> Iterable[Result]:
        for cell in cells:
            self.ran.append(f"{cell.stack.versions['deepspeed']} {cell.variant}")
            outcome, record = self.behaviour(cell)
            yield result_of(cell, record, outcome)


def asked(**changes: object) -> remedy_cases.RemediesQuery:
    fields = {"scenario": "llama", "variant": "base", "device": "sim", "card": gpus.card("A800-80G"), **changes}
    return remedy_cases.RemediesQuery(**fields)  # type: ignore[arg-type]


def ask(
    lab: RecordedRuns | None = None, scenario: Scenario = SCENARIO, **changes: object
) -> remedy_cases.RemediesAnswer:
    return remedy_cases.answer_remedies(asked(**changes), scenario, STACK, (lab or RecordedRuns()).run)


def test_the_table_a_person_reads(golden: Golden) -> None:
    golden("remedies.txt", remedies_report.remedies_text([ask()]))


def test_a_combination_is_a_run_of_its_own_on_top_of_the_best_so_far() -> None:
    lab = RecordedRuns()
    found = ask(lab)
    assert lab.ran == [
        "0.16.4 base",
        "0.16.4 offload=true",
        "0.16.4 checkpointing=reentrant",
        "0.16.4 sequence_length=1024",
        "0.16.4 world_size=16",
        "0.16.4 expandable=true",
        "0.16.4 dtype=fp32",
        "0.15.0 base",
        "0.16.4 checkpointing=reentrant,offload=true",
        "0.16.4 checkpointing=reentrant,offload=true,sequence_length=1024",
    ]
    assert found.best is not None
    assert (found.best.remedies, found.best.peak_bytes) == (("reentrant", "offload", "short"), 22 * GIB)


def test_a_step_of_the_search_that_makes_it_worse_is_taken_back() -> None:
    def clashing(cell: Cell) -> tuple[Outcome, RunRecord | None]:
        if cell.parameters["offload"] and cell.parameters["checkpointing"] == "reentrant":
            return Failed(stage="backward", signature="RuntimeError: no"), None
        return behave(cell)

    found = ask(RecordedRuns(clashing))
    assert [case.remedies for case in found.tried] == [("reentrant", "offload"), ("reentrant", "short")]
    assert found.best is not None
    assert found.best.remedies == ("reentrant", "short")


def test_a_combination_that_the_machine_ended_is_one_of_the_cases_that_were_not_measured() -> None:
    def interrupted(cell: Cell) -> tuple[Outcome, RunRecord | None]:
        if cell.parameters["offload"] and cell.parameters["checkpointing"] == "reentrant":
            return MachineFault(stage="backward", fault="the disk is full", signature="OSError: 28"), None
        return behave(cell)

    found = ask(RecordedRuns(interrupted))
    outcomes = {case.name: case.outcome for case in found.cases}
    assert isinstance(outcomes["reentrant + offload"], MachineFault)
    assert exit_code_of(outcomes.items()) == EXIT_HARNESS


def test_remedies_that_set_the_same_parameter_are_never_combined() -> None:
    declared = {"short": {"sequence_length": 1024}, "shorter": {"sequence_length": 512}}
    scenario = Scenario(1, "", "f", PARAMETERS, {"sim": {}}, remedies=declared)
    lab = RecordedRuns()
    found = ask(lab, scenario, variant="checkpointing=reentrant")
    assert len(lab.ran) == 3
    assert found.best is None
    assert found.tried == ()


def test_what_says_nothing_here_is_not_run_and_says_why() -> None:
    lab = RecordedRuns()
    found = ask(lab, device="cpu", card=None)
    assert [(one.name, one.reason) for one in found.not_tried] == [
        ("short", "on cpu the scenario fixes sequence_length"),
        ("half the ranks", "on cpu the scenario fixes world_size"),
        ("bf16", "already set"),
        ("pin 0.16.4", "already this release"),
    ]
    assert not any("sequence_length" in ran or "world_size" in ran for ran in lab.ran)
    assert found.base.step_s == 0.6
    assert found.base.least_step_s is None
    assert found.base.fits is None


def test_a_case_that_runs_where_the_unmodified_one_does_not_helps() -> None:
    def needy(cell: Cell) -> tuple[Outcome, RunRecord | None]:
        return behave(cell) if cell.parameters["offload"] else (Failed(stage="init", signature="no memory"), None)

    found = ask(RecordedRuns(needy))
    helping = [case.name for case in found.alone if "runs, where" in remedies_report.does(found.base, case)]
    assert helping == ["offload"]
    text = remedies_report.remedies_text([found])
    assert "failed in init: no memory" in text
    (offloaded,) = [line for line in text.splitlines() if line.startswith("offload  ") and "runs, where" in line]
    assert "937 Tflop  32.0 GiB" in offloaded  # and not against what the unmodified case did not do


def test_ranks_change_every_case() -> None:
    lab = RecordedRuns()
    found = ask(lab, ranks=16)
    assert all("world_size=16" in ran for ran in lab.ran)
    assert ("half the ranks", "already set") in [(one.name, one.reason) for one in found.not_tried]


def test_bf16_on_a_card_without_its_units_is_said() -> None:
    text = remedies_report.remedies_text([ask(card=gpus.card("V100-32G"))])
    assert "OUT OF MEMORY IN BACKWARD, no bf16 units on this card" in text


def test_what_leaves_the_job_more_of_the_card_helps_though_the_peak_stays() -> None:
    """As a smaller share of vLLM's does."""
    sharing = Scenario(
        version=1,
        summary="",
        framework="f",
        parameters={**PARAMETERS, "checkpointing": "reentrant", "gpu_memory_utilization": 0.5},
        devices={"sim": {}},
        remedies={"a smaller share": {"gpu_memory_utilization": 0.25}, "short": {"sequence_length": 1024}},
    )
    found = ask(scenario=sharing)
    assert (found.base.fits, found.base.fails_in) == (False, "backward")
    share, short = found.alone
    assert remedies_report.does(found.base, share) == "helps: leaves the job 19.8 GiB more"
    assert (share.peak_bytes, share.fits, short.fits) == (found.base.peak_bytes, True, False)
    assert found.best is not None
    assert found.best.remedies == ("a smaller share", "short")
    text = remedies_report.remedies_text([found])
    assert "helps: a smaller share; short (-2.00 GiB)" in text
    assert "The generation engine beside the unmodified job keeps 39.6 GiB of the A800-80G: not simulated" in text


def test_the_same_as_markdown_and_json() -> None:
    found = ask()
    text = remedies_report.remedies_markdown([found])
    assert "| offload | 144 GiB | backward | 20.0 GiB | helps |" in text
    (content,) = json.loads(remedies_report.remedies_json([found]))["answers"]
    assert content["fits_with"] == [["reentrant"], ["pin 0.15.0"]]
    assert content["best_combination"] == ["reentrant", "offload", "short"]
    alone = {case["remedies"][0]: case for case in content["alone"]}
    assert (alone["offload"]["saved_bytes"], alone["offload"]["does"]) == (20 * GIB, "helps")
    assert (alone["half the ranks"]["saved_bytes"], alone["half the ranks"]["does"]) == (-40 * GIB, "makes it worse")
    assert alone["pin 0.15.0"]["versions"] == {"deepspeed": "0.15.0"}
    assert content["unmodified"]["phases"]["backward"]["device_peak_bytes"] == 164 * GIB


@pytest.mark.parametrize(
    ("scenario", "change", "message"),
    [
        (Scenario(1, "", "f", PARAMETERS, {"sim": {}}), {}, "llama: declares no remedies"),
        (SCENARIO, {"device": "cuda"}, "llama: does not run on cuda"),
        (SCENARIO, {"variant": "zero=9"}, "llama: no such variant: zero=9"),
    ],
)
def test_what_makes_no_sense_is_one_line(scenario: Scenario, change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        remedy_cases.check_remedy_query(asked(**change), scenario)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no such scenario: nothing"),
        (["llama3_70b_zero3", "--gpu", "H300"], "no such GPU: H300"),
        (["llama3_70b_zero3", "--device", "cpu"], "does not run on cpu"),
        (["llama3_70b_zero3", "--variant", "zero=9"], "no such variant: zero=9"),
    ],
)
def test_the_command_refuses_before_it_starts_anything(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["remedies", *arguments])
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
