"""Whether to upgrade: what counts as met, what is never a yes, where to go instead."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress import compare
from dsregress.advice import gpus, upgrade_judgement
from dsregress.advice.certainty import OVERHEAD_BYTES
from dsregress.advice.upgrade_judgement import Upgrade, UpgradeVerdict
from dsregress.advisories.auditing import StatedJob
from dsregress.model import Cell, Failed, Outcome, Passed, Result, Stack
from dsregress.probe.border.wire import Numerics, RankRecord, RunRecord
from dsregress.report.answers import upgrade_answer as upgrade_report
from dsregress.report.answers.upgrade_answer import UpgradeAnswers
from tests.builders.cells import result_of
from vgpu.figures import PhaseReading

GIB = 1 << 30
CARD = gpus.card("A800-80G")
ROOM = CARD.usable_bytes - OVERHEAD_BYTES


def result(version: str, backward: int, scenario: str = "llama") -> Result:
    """One that holds so many bytes in backward; none means that it crashed."""
    phases = {
        "init": PhaseReading(device_peak_bytes=GIB),
        "backward": PhaseReading(device_peak_bytes=backward, device_retained_bytes=backward),
    }
    record: RunRecord | None = RunRecord(outcome="passed", world_size=1, ranks=[RankRecord(rank=0, phases=phases)])
    outcome: Outcome = Passed()
    if not backward:
        outcome, record = Failed(stage="backward", signature="RuntimeError: shape"), None
    cell = Cell(
        stack=Stack(python="3.11", versions={"deepspeed": version}),
        scenario=scenario,
        scenario_version=1,
        variant="base",
        device="sim",
        framework="f",
        parameters={"world_size": 32, "model": "llama"},
    )
    return result_of(cell, record, outcome)


def judged(results: Sequence[Result], target: str, installed: str = "0.15.0") -> Upgrade:
    comparison = compare.compare(results, f"py3.11-deepspeed{installed}", compare.Thresholds(), lambda _: None)
    return upgrade_judgement.judge_upgrade(comparison, "deepspeed", f"py3.11-deepspeed{target}", CARD)


def test_a_crash_is_no_and_the_nearest_newer_release_without_it_is_named() -> None:
    history = [
        result("0.15.0", GIB),
        result("0.16.0", 0),
        result("0.16.4", 0),
        *(result(v, GIB) for v in ("0.16.8", "0.17.0")),
    ]
    found = judged(history, "0.16.0")
    assert (found.verdict, found.instead) == (UpgradeVerdict.NO, "py3.11-deepspeed0.16.8")
    assert judged(history, "0.16.8").verdict is UpgradeVerdict.YES


def test_where_no_release_is_sound_the_newest_that_is_no_worse_is_named() -> None:
    """``b`` crashes in the installed release and in 0.16.9 as well; 0.19.8 crashes on ``a`` too."""
    history = [
        *(result(version, GIB) for version in ("0.16.8", "0.16.9")),
        result("0.19.8", 0),
        *(result(version, 0, "b") for version in ("0.16.8", "0.16.9", "0.19.8")),
    ]
    found = judged(history, "0.19.8", installed="0.16.8")
    assert (found.verdict, found.instead) == (UpgradeVerdict.NO, "py3.11-deepspeed0.16.9")


def test_no_release_is_named_for_what_goes_wrong_now_and_then() -> None:
    wrong = result("0.16.0", GIB)
    assert wrong.record is not None
    wrong.record.ranks[0].numerics = Numerics(losses=[1.0], loss_error=9.0, right_when_repeated=True)
    history = [result("0.15.0", GIB), wrong, result("0.16.8", GIB)]
    found = judged(history, "0.16.0")
    assert (found.verdict, found.instead) == (UpgradeVerdict.NO, "")


def test_what_the_installed_release_has_too_is_not_met() -> None:
    found = judged(
        [result("0.15.0", 0), result("0.16.0", 0), result("0.15.0", GIB, "b"), result("0.16.0", GIB, "b")], "0.16.0"
    )
    assert (found.verdict, found.judgement.met) == (UpgradeVerdict.YES, ())
    assert (found.judgement.compared, found.judgement.workloads) == (1, 2)


def test_nothing_compared_is_no_yes() -> None:
    found = judged([result("0.15.0", GIB, "a"), result("0.16.0", GIB, "b")], "0.16.0")
    assert found.verdict is UpgradeVerdict.UNKNOWN
    assert found.judgement.reason


def test_a_job_that_filled_its_card_and_grows_by_less_than_a_finding_no_longer_fits() -> None:
    found = judged([result("0.15.0", ROOM), result("0.15.4", ROOM), result("0.16.0", ROOM + 1)], "0.16.0")
    assert found.verdict is UpgradeVerdict.NO
    assert [room.workload for room in found.judgement.lost] == ["llama/base/sim"]
    assert found.instead == "py3.11-deepspeed0.15.4"


def test_what_fails_in_both_is_no_yes() -> None:
    found = judged([result("0.15.0", 0), result("0.16.0", 0)], "0.16.0")
    assert found.verdict is UpgradeVerdict.UNKNOWN
    nothing = StatedJob(versions={}, facts={})
    answers = UpgradeAnswers(measured=found, old=nothing, new=nothing)
    assert upgrade_report.upgrades_text([answers], None, {}, {}, []) == (
        "deepspeed 0.15.0 -> 0.16.0: not measured here (no workload that it ran could be compared)\n"
        "  in both: 1 crash\n"
        "  0 of 1 workload compared\n"
    )
