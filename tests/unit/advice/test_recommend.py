"""Which release to pin: what counts against one, what may be set, and the words that a person reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from dsregress import compare
from dsregress.advice import gpus, release_advice
from dsregress.advisories.advisory import Remedy
from dsregress.advisories.matching import Match, Matched
from dsregress.advisories.upgrading import SetBefore, UpgradeAnswer, Verdict
from dsregress.cli import cli
from dsregress.cli.recommend import exit_code_of_advice
from dsregress.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION, NothingMeasured, UsageError
from dsregress.model import Cell, Failed, Outcome, Passed, Result, Stack
from dsregress.probe.border.wire import RankRecord, RunRecord
from dsregress.probe.scenario import Scenario
from dsregress.report.answers import recommend_answer as recommend_report
from tests.builders.advisories import advisory
from tests.builders.cells import result_of
from tests.golden_files import Golden
from tests.paths import ROOT
from vgpu.figures import PhaseReading

GIB = 1 << 30
SCENARIO = Scenario(
    version=1,
    summary="",
    framework="f",
    parameters={"world_size": 32, "checkpointing": "non_reentrant"},
    devices={"sim": {}, "cpu": {"world_size": 2}},
    variants=({"checkpointing": "non_reentrant"}, {"checkpointing": "reentrant"}),
)
BASE, REENTRANT = "checkpointing=non_reentrant", "checkpointing=reentrant"


def result(version: str, backward: int, variant: str = BASE, device: str = "sim", scenario: str = "llama") -> Result:
    """One that holds so many GiB in backward; none means that it crashed."""
    stack = Stack(python="3.11", versions={"deepspeed": version})
    phases = {
        "init": PhaseReading(device_peak_bytes=GIB),
        "backward": PhaseReading(device_peak_bytes=backward * GIB, device_retained_bytes=backward * GIB),
    }
    record: RunRecord | None = RunRecord(outcome="passed", world_size=1, ranks=[RankRecord(rank=0, phases=phases)])
    outcome: Outcome = Passed()
    if not backward:
        outcome, record = Failed(stage="import", signature="ImportError: no torch.six"), None
    cell = Cell(
        stack=stack,
        scenario=scenario,
        scenario_version=1,
        variant=variant,
        device=device,
        framework="f",
        parameters=SCENARIO.resolve(variant, device),
    )
    return result_of(cell, record, outcome)


def advice(
    results: Sequence[Result], variant: str = "base", card: str | None = "A800-80G", missing: Sequence[str] = ()
) -> release_advice.Advice:
    comparison = compare.compare(results, "py3.11-deepspeed0.15.0", compare.Thresholds(), lambda _: None)
    found = None if card is None else gpus.card(card)
    question = release_advice.RecommendQuery(scenario="llama", variant=variant, card=found)
    candidates = [stack.id for stack in comparison.stacks]
    return release_advice.advise(question, SCENARIO, comparison, "deepspeed", candidates, missing)


HISTORY = [
    *(result("0.15.0", 40, variant) for variant in (BASE, REENTRANT)),
    *(result("0.15.4", 40, variant) for variant in (BASE, REENTRANT)),
    result("0.16.3", 0),
    result("0.16.4", 160),
    result("0.16.4", 40, REENTRANT),
    result("0.16.5", 160),
]


def test_the_answer_a_person_reads(golden: Golden) -> None:
    text = recommend_report.advice_text(advice(HISTORY, missing=["0.16.6"]), ["dsregress regress --deepspeed 0.16.6"])
    golden("recommend.txt", text)


def test_the_newest_release_that_nothing_speaks_against_is_taken() -> None:
    found = advice(HISTORY)
    assert found.pick is not None
    assert found.pick.version == "0.15.4"
    assert [release.version for release in found.newer] == ["0.16.5", "0.16.4", "0.16.3"]
    assert [release.version for release in found.older] == ["0.15.0"]
    assert exit_code_of_advice(found) == EXIT_OK


def test_a_release_that_runs_where_the_baseline_fails_may_be_pinned_and_one_without_a_baseline_may_not() -> None:
    found = advice([result("0.15.0", 0), result("0.15.4", 0), result("0.16.4", 40)])
    assert found.pick is not None
    assert found.pick.version == "0.16.4"
    alone = advice([result("0.15.0", 40, REENTRANT), result("0.16.4", 40)])
    assert alone.pick is None
    assert {release.version: release.unknown for release in alone.newer}[
        "0.16.4"
    ] == "the baseline has no result for it"


def test_what_may_be_set_is_a_variant_without_a_finding_on_that_very_release() -> None:
    newer = {release.version: [way.variant for way in release.ways] for release in advice(HISTORY).newer}
    assert newer == {"0.16.5": [], "0.16.4": [REENTRANT], "0.16.3": []}


def test_a_variant_that_costs_time_alone_may_be_set_and_says_what_it_costs() -> None:
    def gathering(version: str, times: int) -> Result:
        found = result(version, 40, REENTRANT)
        assert found.record is not None
        found.record.ranks[0].phases["backward"].collectives = {"all_gather": [times, GIB]}
        return found

    found = advice([result("0.15.0", 40), gathering("0.15.0", 1000), result("0.16.4", 160), gathering("0.16.4", 1200)])
    (way,) = found.newer[0].ways
    assert (way.variant, [one.metric for one in way.findings]) == (REENTRANT, ["collective_count"])
    assert (
        "to use it anyway: set checkpointing=reentrant (but backward issues 200 more collectives (+20 %): "
        "1,000 -> 1,200, rank 0; measured in sim; fits, 37.8 GiB to spare)"
    ) in recommend_report.advice_text(found, [])


def test_a_variant_that_is_asked_for_is_judged_by_itself() -> None:
    found = advice(HISTORY, variant=REENTRANT)
    assert found.pick is not None
    assert found.pick.version == "0.16.4"
    assert [(release.version, release.unknown) for release in found.newer] == [
        ("0.16.5", "not measured on this workload")
    ]


def test_a_release_that_does_not_fit_the_card_is_not_taken() -> None:
    found = advice(HISTORY, card="V100-32G")
    assert found.pick is None
    assert exit_code_of_advice(found) == EXIT_REGRESSION
    rooms = {release.version: release.room.fails_in for release in found.newer if release.room is not None}
    assert rooms["0.15.0"] == "backward"


def test_what_a_generation_engine_keeps_of_the_card_is_not_there() -> None:
    def sharing(share: float) -> Result:
        found = result("0.15.0", 40)
        parameters = {**found.cell.parameters, "gpu_memory_utilization": share}
        return msgspec.structs.replace(found, cell=msgspec.structs.replace(found.cell, parameters=parameters))

    fitting = advice([sharing(0.25)]).pick
    assert fitting is not None
    assert fitting.room is not None
    assert fitting.room.headroom_bytes == gpus.card("A800-80G").usable_bytes * 3 // 4 - int(41.5 * GIB)
    found = advice([sharing(0.5)])
    assert found.pick is None
    assert "out of memory in backward: needs 40.0 GiB" in recommend_report.advice_text(found, [])


def test_a_higher_peak_that_fits_the_card_is_no_veto() -> None:
    def reserving(version: str, gib: int) -> Result:
        found = result(version, 40)
        assert found.record is not None
        found.record.ranks[0].phases["backward"].device_peak_bytes = gib * GIB
        return found

    runs = [reserving("0.15.0", 42), reserving("0.15.4", 50)]
    found = advice(runs).pick
    assert found is not None
    assert found.version == "0.15.4"
    assert [one.metric for one in found.costs] == ["device_peak_bytes"]
    text = recommend_report.advice_text(advice(runs), [])
    assert "\ncosts: backward peaks 8.00 GiB higher (+19 %)" in text
    without = advice(runs, card=None).pick
    assert without is not None
    assert without.version == "0.15.4"


def test_without_a_card_nothing_is_said_of_fitting() -> None:
    found = advice(HISTORY, card=None)
    assert found.pick is not None
    assert found.pick.room is None
    assert "fits" not in recommend_report.advice_text(found, [])


def test_a_finding_on_any_device_mode_counts() -> None:
    results = [result("0.15.0", 40), result("0.15.0", 1, device="cpu"), result("0.16.8", 40)]
    found = advice([*results, result("0.16.8", 3, device="cpu")])
    assert found.pick is not None
    assert found.pick.version == "0.15.0"
    assert found.newer[0].devices == ("cpu", "sim")


def test_what_the_baseline_does_not_have_has_no_verdict_and_is_never_taken() -> None:
    results = [result("0.15.0", 40, REENTRANT), result("0.16.8", 40), result("0.16.8", 40, REENTRANT)]
    found = advice(results)
    assert found.pick is None
    assert exit_code_of_advice(found) == EXIT_NOTHING_MEASURED
    assert [(release.version, release.unknown) for release in found.newer] == [
        ("0.16.8", "the baseline has no result for it"),
        ("0.15.0", "not measured on this workload"),
    ]


def test_only_findings_of_the_kinds_that_are_asked_for_count() -> None:
    results = [result("0.15.0", 40), result("0.16.4", 50)]
    comparison = compare.compare(results, "py3.11-deepspeed0.15.0", compare.Thresholds(), lambda _: None)
    candidates = [stack.id for stack in comparison.stacks]

    def pick(*fail_on: str) -> str:
        question = release_advice.RecommendQuery(scenario="llama", variant="base", fail_on=fail_on)
        found = release_advice.advise(question, SCENARIO, comparison, "deepspeed", candidates).pick
        return "" if found is None else found.version

    assert pick("memory", "time") == "0.15.0"
    assert pick("time", "numerics", "crash") == "0.16.4"


def test_results_of_an_older_version_of_the_scenario_say_nothing() -> None:
    old = result("0.16.8", 40)
    old = msgspec.structs.replace(old, cell=msgspec.structs.replace(old.cell, scenario_version=0))
    found = advice([result("0.15.0", 40), old])
    assert found.pick is not None
    assert found.pick.version == "0.15.0"
    assert found.newer[0].unknown == "not measured on this workload"


def test_a_cell_spelled_out_with_the_same_parameters_is_the_same_workload() -> None:
    spelled = [result("0.15.0", 40, "world_size=32"), result("0.16.4", 160, "world_size=32")]
    found = advice([*spelled, result("0.15.0", 40), result("0.16.4", 160)])
    assert found.pick is not None
    assert found.pick.version == "0.15.0"
    (message,) = {finding.message for finding in found.newer[0].findings}
    assert recommend_report.advice_text(found, []).count(message) == 1


def test_what_was_asked_for_and_is_missing_is_no_pass() -> None:
    found = advice(HISTORY, missing=["0.16.6"])
    assert found.pick is not None
    assert exit_code_of_advice(found) == EXIT_NOTHING_MEASURED


def test_the_same_as_json() -> None:
    content = json.loads(recommend_report.advice_json(advice(HISTORY), ["measure"]))
    assert (content["schema"], content["pick"], content["gpu"]) == (1, "0.15.4", "A800-80G")
    assert [(one["version"], one["is_clean"]) for one in content["releases"]] == [
        ("0.16.5", False),
        ("0.16.4", False),
        ("0.16.3", False),
        ("0.15.4", True),
        ("0.15.0", True),
    ]
    assert content["releases"][1]["ways"][0]["variant"] == REENTRANT
    assert content["commands"] == ["measure"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no such scenario: nothing"),
        (["llama3_70b_zero3", "--gpu", "H300"], "no such GPU: H300"),
        (["llama3_70b_zero3", "--variant", "zero=9"], "no such variant: zero=9"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(arguments: list[str], message: str) -> None:
    failed = CliRunner().invoke(cli, ["recommend", *arguments])
    assert isinstance(failed.exception, UsageError)
    assert message in str(failed.exception)


def test_without_results_and_advisories_it_says_what_measures_them(tmp_path: Path) -> None:
    failed = CliRunner().invoke(cli, ["recommend", "trainer_fsdp2", "--results", str(tmp_path)])
    assert isinstance(failed.exception, NothingMeasured)
    assert str(failed.exception) == (
        f"{tmp_path}: no results of trainer_fsdp2; `dsregress regress --scenario trainer_fsdp2 "
        "--variant base --device sim` measures some"
    )


def ruled(verdict: Verdict, **rulings: Any) -> release_advice.Advice:
    """Return the advice of releases of which the second is ruled by the advisories."""
    against = (matched(),) if verdict is Verdict.NO else ()
    conditions = (SetBefore(matched=matched(), remedies=(TO_SET,)),) if verdict is Verdict.IF_SET else ()
    newer = UpgradeAnswer(verdict=verdict, against=against, conditions=conditions)
    own = release_advice.Rulings(
        of_release=lambda stack: (
            newer if stack.versions["deepspeed"] == "0.16.4" else UpgradeAnswer(verdict=Verdict.YES)
        ),
        **rulings,
    )
    results = [result("0.15.0", 40), result("0.16.4", 160 if rulings else 40)]
    comparison = compare.compare(results, "py3.11-deepspeed0.15.0", compare.Thresholds(), lambda _: None)
    question = release_advice.RecommendQuery(scenario="llama", variant="base")
    stacks = [stack.id for stack in comparison.stacks]
    return release_advice.advise(question, SCENARIO, comparison, "deepspeed", stacks, rulings=own)


TO_SET = Remedy(text="turn overlap_comm off", fact="overlap_comm", value=False)


def matched() -> Matched:
    return Matched(advisory=advisory(7, "a leak"), match=Match.CONCERNED)


def text_of(found: release_advice.Advice) -> list[str]:
    return recommend_report.advice_text(found, []).splitlines()[2:]


def test_a_release_that_an_advisory_rules_out_is_not_recommended_whatever_was_measured() -> None:
    assert text_of(ruled(Verdict.NO)) == [
        "pin deepspeed 0.15.0",
        "the newest of 2 releases with results here that nothing rules out (measured in sim)",
        "",
        "newer, not recommended:",
        "  0.16.4  DSR-2026-0007 a leak",
        "          to use it anyway: no variant that helps was measured",
    ]


def test_what_an_advisory_ends_by_a_setting_is_recommended_with_it() -> None:
    assert text_of(ruled(Verdict.IF_SET))[0] == "pin deepspeed 0.16.4, if you turn overlap_comm off"


def test_a_finding_that_an_advisory_knows_counts_by_its_verdict_alone() -> None:
    measured = ruled(Verdict.YES, knows_finding=lambda found: False)
    assert (measured.pick and measured.pick.version) == "0.15.0"
    known = ruled(Verdict.YES, knows_finding=lambda found: True)
    assert (known.pick and known.pick.version) == "0.16.4"


def test_an_end_that_an_advisory_knows_leaves_no_release_without_a_verdict() -> None:
    results = [result("0.15.0", 0), result("0.16.4", 0)]
    comparison = compare.compare(results, "py3.11-deepspeed0.15.0", compare.Thresholds(), lambda _: None)
    question = release_advice.RecommendQuery(scenario="llama", variant="base")
    stacks = [stack.id for stack in comparison.stacks]

    def picked(*, is_known: bool) -> str:
        own = release_advice.Rulings(
            of_release=lambda stack: UpgradeAnswer(verdict=Verdict.YES),
            knows_end=lambda cell, error: is_known and "no torch.six" in error,
        )
        found = release_advice.advise(question, SCENARIO, comparison, "deepspeed", stacks, rulings=own)
        return found.pick.version if found.pick else ""

    assert (picked(is_known=False), picked(is_known=True)) == ("", "0.16.4")


@pytest.mark.slow
def test_a_scenario_has_the_answer_of_the_job_that_it_is() -> None:
    """The crash of the scenario itself, in all releases, is one to set."""
    said = CliRunner().invoke(
        cli,
        ["recommend", "trainer_lora", "--results", str(ROOT / "results" / "2026-11-24-trainer-lora.jsonl.gz")],
        standalone_mode=False,
        catch_exceptions=False,
    )
    assert said.return_value == EXIT_OK
    assert said.stdout.splitlines()[2].startswith(
        "pin deepspeed 0.19.8, if you use torch 2.9.1, put a `scheduler` into the DeepSpeed configuration or use "
        "transformers 5.2.0"
    )
    assert "\nnot stated:\n" in said.stdout  # the questions that the first line counts
    assert "\nnot known, as it was not run:\n" in said.stdout
    assert "  0.19.2  DSR-2026-0043 The first step of fp32 adapters" in said.stdout
