"""What was measured, and the advisories that know it: by metric, facts and releases."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from dsregress.advice import known_problems
from dsregress.advice.assessment import assess
from dsregress.advice.card_rooms import CardRooms
from dsregress.advice.known_problems import KnownProblems, advisories_of_symptom
from dsregress.advice.upgrade_judgement import UpgradeVerdict, judge_upgrade
from dsregress.advisories.advisory import MeasuredSymptom, Ruling
from dsregress.advisories.measured_jobs import job_facts
from dsregress.advisories.shipped import read_advisories
from dsregress.compare import ProblemKind
from dsregress.model import Result
from dsregress.probe import scenario
from dsregress.probe.border.wire import Detail
from dsregress.report.comparison import exports, terminal
from dsregress.report.context import report_context
from dsregress.report.problem_lines import problem_lines
from dsregress.report.report_view import report_view
from tests.builders.known_runs import QUARTER, compared, ran
from tests.paths import ROOT


def known(*results: Result) -> list[tuple[str, ...]]:
    comparison = compared(*results)
    knowledge = KnownProblems(comparison)
    return [tuple(one.id for one in knowledge.of_problem(problem)) for problem in comparison.problems]


def test_a_problem_is_known_by_its_metric_its_job_and_its_release() -> None:
    assert known(ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)) == [("DSR-2026-0001",)]


@pytest.mark.parametrize(
    ("version", "variant"),
    [
        ("0.19.7", QUARTER),  # a release without it
        ("0.18.3", "gradient_accumulation_steps=4"),  # stage 3
        ("0.18.3", "zero_stage=2"),  # no accumulation
    ],
)
def test_an_advisory_that_does_not_concern_the_job_knows_nothing(version: str, variant: str) -> None:
    assert known(ran("0.18.2", variant), ran(version, variant, error=30)) == [()]


@pytest.mark.parametrize(("norm", "found"), [(0.8, []), (1.3, ["DSR-2026-0009"]), (None, ["DSR-2026-0009"])])
def test_clipping_explains_no_run_whose_gradients_are_not_clipped(norm: float | None, found: list[str]) -> None:
    known = advisories_of_symptom(
        metric="parameter_error",
        phase="",
        error="",
        versions={"deepspeed": "0.19.8"},
        facts={"gradient_clipping": None},
        norm=lambda: norm,
    )
    assert [one.id for one in known if one.id == "DSR-2026-0009"] == found


@pytest.mark.parametrize(("trl", "found"), [("1.16.0", ["DSR-2026-0090"]), ("1.12.0", [])])
def test_a_package_that_the_workload_brings_is_as_one_of_its_stack(trl: str, found: list[str]) -> None:
    comparison = compared(ran("0.16.3", QUARTER))
    workload, (stack,) = "trl_trainers/trainer=grpo/cpu", comparison.names
    parameters = {"settings": "zero3.yaml", "lora_rank": 0, "trainer": "grpo", "packages": {"trl": trl}}
    knowledge = KnownProblems(msgspec.structs.replace(comparison, parameters={workload: parameters}))
    error = "AttributeError: 'DeepSpeedZeRoOffload' object has no attribute '_register_deepspeed_module'"
    assert [one.id for one in knowledge._known(stack, workload, "outcome", "", error)] == found


def test_what_both_releases_have_is_no_reason_for_their_difference() -> None:
    """The newest DeepSpeed beside two releases of transformers: its extra operations are in both."""
    none, more = {"launches": 2_000}, {"launches": 9_000}
    variant = "zero_stage=0"
    assert known(ran("0.15.3", variant, **none), ran("0.18.3", variant, **more)) == [("DSR-2026-0038",)]
    both = ran("0.18.3", variant, transformers="4.57.5", **none), ran("0.18.3", variant, **more)
    assert known(*both) == [()]


def test_a_remedy_is_no_release_of_a_package_that_the_job_does_not_have() -> None:
    """What TRL calls of DeepSpeed, a program without TRL may call as well."""
    crash = "AttributeError: 'DeepSpeedZeRoOffload' object has no attribute '_register_hooks_recursively' (train.py:21)"
    comparison = compared(*(ran(version, "world_size=2", crash=crash) for version in ("0.17.6", "0.18.8")))
    knowledge, (problem,) = KnownProblems(comparison), comparison.problems
    assert [one.id for one in knowledge.of_problem(problem)] == ["DSR-2026-0066"]
    assert [one.text for one in knowledge.remedies_within(problem)] == ["use deepspeed 0.16.3"]


def ending(xml: str, version: str) -> tuple[str, str]:
    (suite,) = [one for one in ElementTree.fromstring(xml) if one.get("name") == version]
    ((found,),) = list(suite)
    return found.tag, str(found.get("message"))


def test_what_advisories_know_is_a_skip_with_its_id_in_junit() -> None:
    results = ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30), ran("0.19.7", QUARTER, error=30)
    xml = exports.junit(report_context(compared(*results)))
    assert ending(xml, "0.18.3") == (
        "skipped",
        "known: DSR-2026-0001 The gradient is divided by the accumulation once per output of the model",
    )
    assert ending(xml, "0.19.7")[0] == "failure"


def test_what_ends_in_the_baseline_as_well_is_an_error_there_alone() -> None:
    results = [
        ran(version, "world_size=2,zero_stage=2", crash="ValueError: x (a.py:f)") for version in ("0.18.8", "0.19.8")
    ]
    xml = exports.junit(report_context(compared(*results)))
    assert ending(xml, "0.18.8")[0] == "error"
    assert ending(xml, "0.19.8") == (
        "skipped",
        "does not run to the end in 0.18.8 either: failed in step: ValueError: x (a.py:f)",
    )


def test_a_crash_is_known_by_its_error_in_the_baseline_as_well() -> None:
    split = "RuntimeError: Output 0 of Split is a view and is being modified inplace. (torch/x.py:f)"
    results = [ran("0.18.8", "world_size=2,zero_stage=2", crash=one) for one in (split, "ValueError: another (x.py:f)")]
    found = [ending(exports.junit(report_context(compared(one))), "0.18.8") for one in results]
    assert found[0][0] == "skipped"
    assert found[0][1].startswith("known: DSR-2026-0013 ")
    assert found[1][0] == "error"


ZERO3_LORA = {"engine.optimizer": "DeepSpeedZeroOptimizer_Stage3", "deepspeed.zero_config.stage": 3}
ADAPTER = "base_model.layers.*.q_proj.lora_A.default.weight"


def of_program(one: Result, line: str, trained: str = "", packages: Mapping[str, str] = MappingProxyType({})) -> Result:
    cell = msgspec.structs.replace(
        one.cell,
        scenario="train-1",
        variant="base",
        parameters={"program": line, "world_size": 2, "packages": packages},
    )
    if one.record is not None and one.record.ranks[0].numerics is not None:
        one.record.ranks[0].numerics.learning_rates = [[0.1]]
        one.record.ranks[0].numerics.trained = {trained: 8} if trained else {}
    return msgspec.structs.replace(one, cell=cell)


def test_the_job_of_a_program_is_what_was_in_force_when_it_ran() -> None:
    results = [of_program(ran(version, QUARTER), "train.py", trained=ADAPTER) for version in ("0.16.4", "0.19.8")]
    knowledge = KnownProblems(compared(*results, detail_of=lambda _: Detail(configuration=ZERO3_LORA)))
    facts = knowledge._facts_of(results[0].cell.stack.id, "train-1/base/cpu")
    assert (facts["zero_stage"], facts["lora"], facts["world_size"], facts["device"]) == (3, True, 2, "cpu")


def test_the_job_of_a_program_that_ended_everywhere_is_what_its_line_states() -> None:
    results = [of_program(ran("0.16.4", QUARTER, crash="ValueError: x (a.py:f)"), "llamafactory-cli train --stage sft")]
    facts = KnownProblems(compared(*results))._facts_of(results[0].cell.stack.id, "train-1/base/cpu")
    assert (facts["trainer"], facts["world_size"]) == (True, 2)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        ("ValueError: zip() argument 2 is longer than argument 1 (transformers/trainer.py:_inner_training_loop)", True),
        ("ValueError: zip() argument 2 is shorter (transformers/trainer.py:_inner_training_loop)", False),
    ],
)
def test_an_error_that_only_one_fault_raises_is_known_of_a_job_of_which_nothing_is(error: str, found: bool) -> None:
    results = [of_program(ran("0.16.4", QUARTER, crash=error), "train.py")]
    knowledge = KnownProblems(compared(*results))
    ids = [one.id for one in knowledge.of_outcome(results[0].cell.stack.id, "train-1/base/cpu", error)]
    assert ids == (["DSR-2026-0015"] if found else [])


@pytest.mark.parametrize("parameters", [{}, {"settings": "zero3.json"}, {"zero_stage": 7, "micro_batch_size": 1}])
def test_a_job_of_other_parameters_has_no_facts_but_its_device(parameters: Mapping[str, Any]) -> None:
    for name in ("trainer_lora", "trainer_resume", "mine"):
        assert job_facts(f"{name}/base/cpu", parameters) == {"device": "cpu"}


def test_a_problem_line_names_the_advisory_that_knows_it() -> None:
    context = report_context(compared(ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)))
    (line,) = problem_lines(context, assess(context.comparison, context.rooms))
    assert line.advisories == ("DSR-2026-0001",)
    assert line.sentences.endswith(" See DSR-2026-0001.")
    assert "DSR" not in line.consequence


def sentences(*results: Result) -> str:
    context = report_context(compared(*results))
    (line,) = problem_lines(context, assess(context.comparison, context.rooms))
    return line.sentences


def test_a_fault_that_no_measured_release_is_without_has_the_remedies_of_its_advisory() -> None:
    said = sentences(*(ran(version, QUARTER, error=30) for version in ("0.18.3", "0.18.4")))
    assert said.endswith(" Use deepspeed 0.19.6 or use deepspeed 0.18.2. See DSR-2026-0001.")


def test_the_first_screen_has_the_id_below_the_releases() -> None:
    context = report_context(compared(ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)))
    lines = [str(line) for line in terminal.first_lines(report_view(context).screen, 80)]
    at = next(at for at, line in enumerate(lines) if line.startswith(" 1 0.18.3 "))
    assert lines[at + 1].startswith("   DSR-2026-0001  ")
    assert not any("Your upgrade" in line for line in lines)  # there is no release to go to


def rated(version: str, rate: float) -> Result:
    """One whose first step has this learning rate."""
    made = ran(version, QUARTER)
    assert made.record is not None
    numerics = made.record.ranks[0].numerics
    assert numerics is not None
    numerics.learning_rates = [[rate]]
    return made


def test_another_training_that_an_advisory_rules_no_fault_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [rated("0.18.2", 0.1), rated("0.18.3", 0.2)]
    assert "This comparison cannot tell which release is right." in sentences(*runs)
    (fault,) = [one for one in read_advisories() if one.id == "DSR-2026-0001"]
    shown = (MeasuredSymptom(metrics=("training_difference",)),)
    change = msgspec.structs.replace(fault, ruling=Ruling.CHANGE, shown_by=shown)
    monkeypatch.setattr(known_problems, "read_advisories", lambda: (change,))
    assert sentences(*runs).endswith(" No fault. See DSR-2026-0001.")
    assert "cannot tell" not in sentences(*runs)


UNCLIPPED = "gradient_clipping=none"


def unclipped(version: str, error: float = 0.2) -> Result:
    """One that configures no clipping."""
    return ran(version, UNCLIPPED, error=error)


def test_a_default_that_is_ruled_no_fault_is_what_changed_and_not_wrong() -> None:
    effective = {"0": Detail(configuration={"deepspeed.gradient_clipping": 0.0})}
    effective["1"] = Detail(configuration={"deepspeed.gradient_clipping": 1.0})
    runs = [
        msgspec.structs.replace(one, detail_sha256={"configuration": digest})
        for one, digest in zip((unclipped("0.16.8"), unclipped("0.19.8", error=60)), effective, strict=True)
    ]
    context = report_context(compared(*runs, detail_of=lambda one: effective[one.detail_sha256["configuration"]]))
    (section,) = report_view(context).screen.sections
    assert section.title == "TRAINS DIFFERENTLY"
    assert section.problems[0].text == "gradient_clipping is 1.0 where it is not set, was 0.0."
    assert section.problems[0].consequence == "Set it; 0.0 keeps the old behaviour."
    upgrade = judge_upgrade(context.comparison, "deepspeed", runs[1].cell.stack.id)
    assert (upgrade.verdict, upgrade.judgement.settings) == (UpgradeVerdict.YES, ())  # which the advisory decides


def test_a_change_whose_default_was_not_recorded_has_what_its_advisory_sets() -> None:
    said = sentences(unclipped("0.16.8"), unclipped("0.19.8", error=60))
    assert said.endswith(" No fault: set `gradient_clipping`; 0.0 keeps the old behaviour. See DSR-2026-0009.")
    assert "0.16.8" not in said


def test_a_release_with_a_change_that_is_no_fault_is_one_to_use() -> None:
    crash = "RuntimeError: Output 0 of Split is a view and is being modified inplace. (torch/x.py:f)"
    runs = unclipped("0.16.8"), ran("0.18.8", UNCLIPPED, crash=crash), unclipped("0.19.8", error=60)
    comparison = compared(*runs)
    releases = {one.kind: one.release for one in assess(comparison, CardRooms(comparison))}
    assert releases == {ProblemKind.CRASH: runs[2].cell.stack.id, ProblemKind.DIFFERENT: ""}


def test_a_stack_of_no_version_is_known_by_nothing() -> None:
    assert advisories_of_symptom(metric="loss_error", phase="", error="", versions={"deepspeed": "<x>"}, facts={}) == ()


def lora(version: str, *, warmup: int, crash: str = "") -> Result:
    """A run of the Trainer with LoRA under ZeRO-3 and a scheduler of DeepSpeed's."""
    own = scenario.load(ROOT / "scenarios" / "trainer_lora.py")
    variant = f"settings=zero3_scheduler.json,schedule_warmup={warmup}"
    one = ran(version, QUARTER, crash=crash)
    cell = msgspec.structs.replace(
        one.cell, scenario="trainer_lora", variant=variant, parameters=own.resolve(variant, "cpu")
    )
    return msgspec.structs.replace(one, cell=cell)


def test_what_a_setting_ends_is_told_as_audit_does_and_not_by_an_older_release() -> None:
    refused = (
        "ValueError: warmup_num_steps must be a positive integer, got 0 (deepspeed/runtime/lr_schedules.py:__init__)"
    )
    runs = lora("0.18.9", warmup=0), lora("0.19.8", warmup=0, crash=refused)
    (line,) = report_view(report_context(compared(*runs))).screen.problems
    assert line.advisories == ("DSR-2026-0042",)
    assert line.release_to_use == ""
    assert line.sentences.endswith("Give at least one warmup step. See DSR-2026-0042.")


def test_a_release_that_an_advisory_rules_out_is_not_the_one_to_use() -> None:
    """ZeRO-2 with accumulation: 0.18.2 has a fault of its own, DSR-2026-0002."""
    (line,) = report_view(
        report_context(compared(ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)))
    ).screen.problems
    assert line.release_to_use == ""
    assert "Use 0.18.2" not in line.sentences
