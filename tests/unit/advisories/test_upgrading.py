"""The verdict on an upgrade."""

from __future__ import annotations

from typing import Any

import pytest

from dsregress.advisories.advisory import Advisory, AdvisoryKind, Remedy, Ruling
from dsregress.advisories.matching import KnownJob, Matched, match_advisory
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict, judge_upgrade
from dsregress.advisories.usual_jobs import usually_concerns
from dsregress.versions import declared_requirements
from tests.builders.advisories import advisory

TO_FIXED = Remedy(text="use 0.19.0", package="deepspeed", version="0.19.0")


def going(
    advisories: list[Advisory], old: str = "0.16.0", new: str = "0.18.0", torch: str | None = None, **facts: Any
) -> UpgradeAnswer:
    beside = {"torch": torch} if torch else {}
    before, after = ({"deepspeed": version, **beside} for version in (old, new))
    return judge_upgrade(advisories, KnownJob(versions=before, facts=facts), KnownJob(versions=after, facts=facts))


def ids(found: tuple[Matched, ...]) -> list[str]:
    return [one.advisory.id for one in found]


def test_an_upgrade_that_nothing_concerns_is_advised() -> None:
    found = going([advisory()], new="0.19.0")
    assert (found.verdict, found.conditions, found.gained) == (Verdict.YES, (), ())


def test_a_package_that_no_advisory_is_about_is_not_known() -> None:
    old = KnownJob(versions={"deepspeed": "0.16.0", "peft": "0.15.0"})
    found = judge_upgrade([advisory()], old, old.changed(versions={"peft": "0.21.0"}))
    assert (found.verdict, found.uncovered) == (Verdict.UNKNOWN, ("peft",))
    both = judge_upgrade([advisory()], old, old.changed(versions={"peft": "0.21.0", "deepspeed": "0.19.0"}))
    assert (both.verdict, both.uncovered) == (Verdict.YES, ("peft",))


def test_a_new_fault_rules_the_release_out_and_the_next_free_one_is_named() -> None:
    found = going([advisory(remedies=[TO_FIXED])])
    assert (found.verdict, ids(found.against), found.instead) == (
        Verdict.NO,
        ["DSR-2026-0001"],
        {"deepspeed": "0.19.0"},
    )


def test_without_a_newer_release_the_newest_before_it_is_named() -> None:
    found = going([advisory(affected=["0.18.0", "0.19.0"], unaffected=["0.16.0", "0.17.0"])])
    assert found.instead == {"deepspeed": "0.17.0"}


def test_no_release_is_named_if_none_is_free() -> None:
    found = going([advisory(affected=["0.17.0", "0.18.0"], unaffected=["0.16.0"])])
    assert (found.verdict, found.instead) == (Verdict.NO, {})


def test_a_release_with_another_fault_is_not_named_instead() -> None:
    other = advisory(2, affected=["0.19.0"], unaffected=["0.16.0", "0.18.0", "0.20.0"])
    found = going([advisory(unaffected=["0.16.0", "0.19.0", "0.20.0"]), other])
    assert found.instead == {"deepspeed": "0.20.0"}


def test_nobody_is_sent_to_a_release_that_was_not_run_for_what_is_against_the_upgrade() -> None:
    other = advisory(2, affected=["0.15.0"], unaffected=["0.16.0", "0.18.0", "0.19.0", "0.20.0"])
    found = going([advisory(affected=["0.18.0"], unaffected=["0.16.0", "0.20.0"]), other])
    assert found.instead == {"deepspeed": "0.20.0"}


def test_a_setting_that_ends_a_new_fault_is_a_condition() -> None:
    off = Remedy(text="turn overlap_comm off", fact="overlap_comm", value=False)
    found = going([advisory(needs={"overlap_comm": ([True], [False])}, remedies=[off])], overlap_comm=True)
    assert (found.verdict, [one.remedies for one in found.conditions]) == (Verdict.IF_SET, [(off,)])


def test_another_stage_is_another_job_and_no_condition() -> None:
    stage = Remedy(text="ZeRO stage 3", fact="zero_stage", value=3)
    found = going([advisory(needs={"zero_stage": ([1], [3])}, remedies=[stage])], zero_stage=1)
    assert (found.verdict, found.conditions) == (Verdict.NO, ())


def test_a_setting_that_was_not_seen_to_end_it_is_none() -> None:
    off = Remedy(text="turn overlap_comm off", fact="overlap_comm", value=False)
    found = going([advisory(needs={"overlap_comm": ([True], [])}, remedies=[off])], overlap_comm=True)
    assert found.verdict is Verdict.NO


def test_a_crash_of_both_is_a_condition_if_a_release_of_another_package_ends_it() -> None:
    use = Remedy(text="use torch 2.9.1", package="torch", version="2.9.1")
    crash = advisory(
        kind=AdvisoryKind.CRASHES, package="torch", affected=["2.10.0", "2.13.0"], unaffected=["2.9.1"], remedies=[use]
    )
    found = going([crash, advisory(2)], new="0.19.0", torch="2.13.0")
    assert (found.verdict, [one.remedies for one in found.conditions]) == (Verdict.IF_SET, [(use,)])


def test_a_grave_fault_that_both_may_have_by_what_was_not_stated_is_asked_for() -> None:
    crash = advisory(kind=AdvisoryKind.CRASHES, needs={"trainer": ([True], [False])})
    wrong = advisory(2, needs={"trainer": ([True], [False])})
    leak = advisory(3, kind=AdvisoryKind.LEAKS, needs={"trainer": ([True], [False])})
    found = going([crash, wrong, leak], old="0.17.0")
    assert (found.verdict, ids(found.kept_open), found.depends) == (
        Verdict.YES,
        ["DSR-2026-0001", "DSR-2026-0002"],
        (),
    )
    assert going([crash, wrong], old="0.17.0", trainer=False).kept_open == ()


def test_wrong_training_of_both_does_not_speak_against_going() -> None:
    found = going([advisory()], old="0.17.0")
    assert (found.verdict, ids(found.kept)) == (Verdict.YES, ["DSR-2026-0001"])


def test_a_fault_that_ends_is_gained() -> None:
    found = going([advisory()], old="0.17.0", new="0.19.0")
    assert (found.verdict, ids(found.gained)) == (Verdict.YES, ["DSR-2026-0001"])


def test_an_improvement_that_begins_is_gained() -> None:
    found = going([advisory(kind=AdvisoryKind.SLOWER, ruling=Ruling.IMPROVEMENT)])
    assert (found.verdict, ids(found.gained)) == (Verdict.YES, ["DSR-2026-0001"])


def test_a_default_that_changed_is_a_condition_and_another_change_is_named() -> None:
    unset = Remedy(text="set `gradient_clipping`", fact="gradient_clipping", value=0.0)
    default = advisory(
        kind=AdvisoryKind.DEFAULT_CHANGED,
        ruling=Ruling.CHANGE,
        needs={"gradient_clipping": ([None], [0.0, 1.0])},
        remedies=[unset],
    )
    saved = advisory(2, kind=AdvisoryKind.SAVES_DIFFERENTLY, ruling=Ruling.CHANGE)
    found = going([default, saved], gradient_clipping=None)
    assert found.verdict is Verdict.IF_SET
    assert ([one.remedies for one in found.conditions], ids(found.changes)) == ([(unset,)], ["DSR-2026-0002"])
    assert going([default, saved], gradient_clipping=1.0).verdict is Verdict.YES


def test_what_costs_more_never_speaks_against_a_release() -> None:
    found = going([advisory(kind=AdvisoryKind.MORE_WORK), advisory(2, kind=AdvisoryKind.SLOWER)])
    assert (found.verdict, ids(found.costs)) == (Verdict.YES, ["DSR-2026-0001", "DSR-2026-0002"])


def test_a_leak_is_a_condition_as_the_job_may_have_the_memory() -> None:
    leak = advisory(kind=AdvisoryKind.LEAKS)
    found = going([leak])
    assert (found.verdict, [one.remedies for one in found.conditions]) == (Verdict.IF_SET, [()])
    assert going([leak], old="0.17.0").verdict is Verdict.YES
    wrong = advisory(2, affected=["0.18.0"], unaffected=["0.16.0", "0.17.0", "0.18.1"])
    wide = advisory(kind=AdvisoryKind.LEAKS, affected=["0.17.0", "0.18.1"], unaffected=["0.16.0"])
    assert going([wide, wrong]).instead == {"deepspeed": "0.18.1"}


def test_a_fault_by_what_was_not_stated_is_a_question() -> None:
    found = going([advisory(needs={"resume": ([True], [False])})])
    assert (found.verdict, ids(found.depends)) == (Verdict.YES, ["DSR-2026-0001"])
    assert going([advisory(needs={"resume": ([True], [False])})], resume=False).depends == ()


def test_it_is_not_known_where_each_value_of_an_unstated_fact_has_a_fault_of_its_own() -> None:
    saving = advisory(needs={"resume": ([True], [False])})
    not_saving = advisory(2, needs={"resume": ([False], [True])})
    found = going([saving, not_saving])
    assert (found.verdict, ids(found.hinges)) == (Verdict.UNKNOWN, ["DSR-2026-0001", "DSR-2026-0002"])
    assert (going([saving]).verdict, going([saving]).hinges) == (Verdict.YES, ())
    beside = advisory(2, needs={"resume": ([False], [True]), "trainer": ([True], [False])})
    assert going([saving, beside]).hinges == ()


def test_a_grave_fault_of_what_is_usual_and_was_not_stated_is_no_yes() -> None:
    usual = advisory(needs={"gradient_accumulation_steps": ([2, 4], [1])})
    found = going([usual])
    assert (found.verdict, ids(found.usual), found.instead) == (
        Verdict.UNKNOWN,
        ["DSR-2026-0001"],
        {"deepspeed": "0.19.0"},
    )
    assert going([usual], gradient_accumulation_steps=1).usual == ()
    assert going([usual], gradient_accumulation_steps=4).verdict is Verdict.NO
    assert going([usual], old="0.17.0").verdict is Verdict.YES
    rare = advisory(needs={"gradient_accumulation_steps": ([2, 4], [1]), "resume": ([True], [False])})
    assert going([rare]).verdict is Verdict.YES
    leak = advisory(kind=AdvisoryKind.LEAKS, needs={"gradient_accumulation_steps": ([2, 4], [1])})
    assert going([leak]).usual == ()


def test_a_fault_of_what_is_usual_is_a_condition_where_a_setting_ends_it() -> None:
    ending = Remedy(text="turn it off", fact="torch_compile", value=False)
    needs = {"gradient_accumulation_steps": ([2, 4], [1]), "torch_compile": ([True], [False])}
    found = going([advisory(needs=needs, remedies=[ending])], torch_compile=True)
    assert (found.verdict, [one.remedies for one in found.conditions], found.depends) == (
        Verdict.IF_SET,
        [(ending,)],
        (),
    )


def test_a_trainer_is_usual_beside_the_packages_that_it_needs_and_no_loop_of_its_own() -> None:
    of_trainer = advisory(needs={"trainer": ([True], [False])})
    pins = {"deepspeed": "0.17.0", "transformers": "4.57.6", "accelerate": "1.12.0"}
    assert usually_concerns(match_advisory(of_trainer, KnownJob(versions=pins)), KnownJob(versions=pins))
    for others in ({"deepspeed": "0.17.0"}, {**pins, "openrlhf": "0.8.5"}):
        job = KnownJob(versions=others)
        assert not usually_concerns(match_advisory(of_trainer, job), job)


def test_a_question_that_the_old_job_has_as_well_is_none_of_the_upgrade() -> None:
    assert going([advisory(needs={"resume": ([True], [False])})], old="0.17.0").depends == ()


def test_a_release_beyond_all_that_were_run_is_not_known() -> None:
    found = going([advisory()], new="0.19.9")
    assert (found.verdict, [one.not_run for one in found.unknown]) == (Verdict.UNKNOWN, [("deepspeed 0.19.9",)])


def test_a_release_between_two_answers_is_not_known() -> None:
    assert going([advisory()], new="0.18.5").verdict is Verdict.UNKNOWN
    assert going([advisory()], new="0.16.5").verdict is Verdict.UNKNOWN


def test_doubt_about_a_release_does_not_decide_where_a_value_was_not_run_either() -> None:
    doubted = advisory(needs={"dtype": (["bf16"], ["fp32"])})
    assert going([doubted], new="0.18.5", dtype="fp16").verdict is Verdict.YES
    assert going([doubted], new="0.18.5", dtype="bf16").verdict is Verdict.UNKNOWN


def test_doubt_about_a_release_does_not_decide_beside_a_package_past_its_fix() -> None:
    partner = advisory(affected=["0.17.0"], unaffected=["0.16.0"], partners={"torch": (["2.4.0"], ["2.5.0"])})
    other = advisory(2, affected=[], unaffected=["0.16.0", "0.19.0"])
    assert going([partner, other], new="0.18.0", torch="2.6.0").verdict is Verdict.YES
    assert going([partner, other], new="0.18.0", torch="2.4.0").verdict is Verdict.UNKNOWN


def test_doubt_about_a_release_does_not_decide_where_a_fact_is_not_stated() -> None:
    assert going([advisory(needs={"checkpoint": ([True], [False])})], new="0.18.5").verdict is Verdict.YES


def test_reentrant_checkpointing_is_a_setting_and_none_is_another_job() -> None:
    needs: Any = {"gradient_checkpointing": (["non_reentrant"], ["none", "reentrant"])}
    give = Remedy(text="give `use_reentrant=True`", fact="gradient_checkpointing", value="reentrant")
    without = Remedy(text="no gradient checkpointing", fact="gradient_checkpointing", value="none")
    found = going([advisory(needs=needs, remedies=[without, give])], gradient_checkpointing="non_reentrant")
    assert [one.remedies for one in found.conditions] == [(give,)]


def test_a_release_after_one_without_the_fault_is_named_and_does_not_decide() -> None:
    other = advisory(2, affected=[], unaffected=["0.20.0"])
    found = going([advisory(), other], new="0.20.0")
    assert (found.verdict, ids(found.unknown)) == (Verdict.YES, ["DSR-2026-0001"])


def test_a_value_that_was_not_run_is_named_and_does_not_decide() -> None:
    found = going([advisory(needs={"device": (["cpu"], [])})], device="cuda")
    assert (found.verdict, [one.not_run for one in found.unknown]) == (Verdict.YES, [("GPUs",)])


def test_releases_on_the_way_with_a_fault_are_skipped() -> None:
    one = advisory(affected=["0.17.0", "0.17.1"], unaffected=["0.16.0", "0.18.0"])
    found = going([one])
    assert [(each.package, each.releases) for each in found.skipped] == [("deepspeed", ("0.17.0", "0.17.1"))]
    assert found.verdict is Verdict.YES


def test_a_remedy_that_brings_another_fault_says_so() -> None:
    put = Remedy(text="put a `scheduler` in", fact="scheduler", value="WarmupDecayLR")
    crash = advisory(kind=AdvisoryKind.CRASHES, needs={"scheduler": (["none"], ["WarmupDecayLR"])}, remedies=[put])
    refused = advisory(
        2, kind=AdvisoryKind.CRASHES, needs={"scheduler": (["WarmupDecayLR"], ["none"]), "warmup_steps": ([0], [1])}
    )
    found = going([crash, refused], scheduler="none")
    assert [(one.remedy, one.matched.advisory.id) for one in found.arising] == [(put, "DSR-2026-0002")]
    assert going([crash, refused], scheduler="none", warmup_steps=5).arising == ()


def test_the_release_of_the_changed_package_that_is_at_fault_is_replaced() -> None:
    of_transformers = advisory(package="transformers", affected=["4.48.1"], unaffected=["4.47.0", "4.49.0"])
    old = KnownJob(versions={"deepspeed": "0.16.0", "transformers": "4.47.0"})
    new = KnownJob(versions={"deepspeed": "0.19.0", "transformers": "4.48.1"})
    assert judge_upgrade([of_transformers, advisory(2)], old, new).instead == {"transformers": "4.49.0"}


def test_a_fault_of_today_of_which_the_new_release_was_not_run_is_not_lost() -> None:
    found = going([advisory(affected=["0.16.0"], unaffected=["0.15.0"])], new="0.19.0")
    assert (ids(found.not_run), found.gained) == (["DSR-2026-0001"], ())


def test_the_installed_release_is_not_the_one_to_go_to() -> None:
    """Nor is one that goes on ending the job."""
    wrong = advisory(affected=["0.17.0"], unaffected=["0.18.0", "0.18.5", "0.19.0"])
    crash = advisory(2, kind=AdvisoryKind.CRASHES, affected=["0.18.0", "0.18.5"], unaffected=["0.17.0", "0.19.0"])
    found = going([wrong, crash], old="0.18.0", new="0.17.0")
    assert (found.verdict, found.instead) == (Verdict.NO, {"deepspeed": "0.19.0"})


REQUIREMENTS = {
    "trl": {"0.20.0": ["transformers>=4.53.2"], "1.16.0": ["transformers>=4.56.2"]},
    "transformers": {"4.53.2": [], "4.56.2": []},
}


def test_a_release_that_cannot_be_installed_beside_the_others_is_ruled_out_for_one_that_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(declared_requirements, "known_requirements", lambda: REQUIREMENTS)
    known = advisory(package="trl", affected=["0.9.0"], unaffected=["0.19.0", "0.20.0", "1.16.0"])
    old = KnownJob(versions={"trl": "0.19.0", "transformers": "4.53.2"})
    found = judge_upgrade([known], old, old.changed(versions={"trl": "1.16.0"}))
    assert (found.verdict, [one.text for one in found.conflicts], found.instead) == (
        Verdict.NO,
        ["trl 1.16.0 requires transformers>=4.56.2, not 4.53.2"],
        {"trl": "0.20.0"},
    )


def test_packages_that_go_together_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared_requirements, "known_requirements", lambda: REQUIREMENTS)
    known = advisory(package="trl", affected=["0.9.0"], unaffected=["0.19.0", "0.20.0", "1.16.0"])
    old = KnownJob(versions={"trl": "0.19.0", "transformers": "4.53.2"})
    alone = judge_upgrade([known], old, old.changed(versions={"trl": "1.16.0"}), together=["trl", "transformers"])
    both = judge_upgrade([known], old, old.changed(versions={"trl": "1.16.0", "transformers": "4.56.2"}))
    assert (alone.verdict, both.verdict) == (Verdict.YES, Verdict.YES)


def test_what_to_set_for_the_release_to_go_to_brings_no_other_fault_if_another_remedy_does_not() -> None:
    against = advisory(affected=["0.18.0"], unaffected=["0.16.0", "0.19.0"])
    crash = advisory(
        2,
        kind=AdvisoryKind.CRASHES,
        affected=["0.19.0"],
        unaffected=["0.16.0", "0.18.0"],
        needs={"overlap_comm": ([True], [False]), "contiguous_gradients": ([True], [False])},
        remedies=[
            Remedy(text="turn overlap_comm off", fact="overlap_comm", value=False),
            Remedy(text="turn contiguous_gradients off", fact="contiguous_gradients", value=False),
        ],
    )
    brought = advisory(3, affected=["0.19.0"], unaffected=["0.16.0"], needs={"overlap_comm": ([False], [True])})
    found = going([against, crash, brought], overlap_comm=True, contiguous_gradients=True)
    assert found.instead == {"deepspeed": "0.19.0"}
    assert [remedy.fact for one in found.instead_conditions for remedy in one.remedies] == ["contiguous_gradients"]
