"""`recommend` for a stated job: the rules of `audit`, and the words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsregress.advisories.matching import KnownJob
from dsregress.advisories.pinning import choose_release
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import judge_upgrade
from dsregress.cli import cli
from dsregress.report.answers.pin_answer import pin_headline, pin_text
from tests.builders.advisories import advisory
from tests.unit.advisories.questions import QUESTIONS, Question, ids, stated

TO_DEEPSPEED = [one for one in QUESTIONS if one.to.keys() == {"deepspeed"}]


@pytest.mark.parametrize("question", TO_DEEPSPEED, ids=lambda one: one.name)
def test_a_release_is_recommended_as_an_upgrade_to_it_is(question: Question) -> None:
    old, release = stated(question), question.to["deepspeed"]
    upgrade = judge_upgrade(read_advisories(), old.job, old.going_to(question.to).job)
    pin = choose_release(read_advisories(), old.job, "deepspeed", [release])
    if pin.answer is not None:
        assert question.verdict in ("yes", "if set")
        assert set(question.remedies) <= {each.text for one in pin.answer.conditions for each in one.remedies}
    else:
        ((_, answer),) = pin.newer
        assert set(question.against) <= set(ids(answer.against))
        # what both have is no reason against an upgrade, and one against a release
        assert question.verdict in ("no", "unknown") or set(ids(answer.against)) & set(ids(upgrade.kept))


def _question(name: str) -> Question:
    (found,) = [one for one in QUESTIONS if one.name == name]
    return found


def test_the_newest_release_is_pinned_with_what_is_to_be_set() -> None:
    job = stated(_question("LoRA by Trainer under ZeRO-3, as in the issue")).job
    pin = choose_release(read_advisories(), job, "deepspeed", ["0.15.0", "0.16.8", "0.19.8", "0.19.2"])
    assert pin_headline(pin).startswith(
        "pin deepspeed 0.19.8, if you use torch 2.9.1, put a `scheduler` into the DeepSpeed configuration or use "
        "transformers 5.2.0"
    )
    assert pin.newer == ()


def test_a_newer_release_with_a_fault_is_passed_over(tmp_path: Path) -> None:
    question = _question("the same with an older torch")
    (tmp_path / "pins.txt").write_text("".join(f"{name}=={version}\n" for name, version in question.job.items()))
    facts = [word for fact in question.facts for word in ("--set", fact)]
    words = ["recommend", "-r", str(tmp_path / "pins.txt"), "--deepspeed", "0.19.1,0.19.2", *facts]
    said = CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
    assert said.return_value == 0
    assert said.stdout.endswith(
        "\n\nnewer, not recommended:\n"
        "  0.19.2: DSR-2026-0043 The first step of fp32 adapters on a model that was loaded in bf16 ends under ZeRO-3\n"
    )
    said = CliRunner().invoke(
        cli, [*words, "--deepspeed", "0.19.2", "--json", "-"], standalone_mode=False, catch_exceptions=False
    )
    assert said.return_value == 1
    assert json.loads(said.stdout) == {
        "schema": 1,
        "package": "deepspeed",
        "pick": None,
        "answer": "no release of deepspeed is free of faults for this job",
        "conditions": [],
        "newer": [{"release": "0.19.2", "verdict": "no", "ids": ["DSR-2026-0043"]}],
    }


def test_what_another_package_brings_rules_no_release_out() -> None:
    crash = advisory(package="transformers", affected=["4.46.3"], unaffected=["4.49.0"])
    job = KnownJob(versions={"deepspeed": "0.16.0", "transformers": "4.46.3"}, facts={"zero_stage": 3})
    about = advisory(2, title="a second problem", needs={"zero_stage": ([3], [0])})
    pin = choose_release([crash, about], job, "deepspeed", ["0.16.0", "0.18.0"])
    assert pin_headline(pin) == "pin deepspeed 0.16.0; it does not end what the job has: a problem"
    assert [(release, ids(answer.against)) for release, answer in pin.newer] == [("0.18.0", ("DSR-2026-0002",))]


def test_a_package_that_no_advisory_is_about_has_no_release_to_pin() -> None:
    pin = choose_release(read_advisories(), stated(TO_DEEPSPEED[0]).job, "peft", ["0.15.1", "0.21.2"])
    assert pin_headline(pin) == "not known which release of peft to pin: none was run for a job like this"
    text = pin_text(pin, stated(TO_DEEPSPEED[0]))
    assert "  0.21.2: not known: no advisory is about peft for a job like this\n" in text


def test_a_job_without_deepspeed_is_told_which_accelerate_to_use(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text("torch==2.13.0\ntransformers==5.24.0\naccelerate==1.14.0\n", encoding="utf-8")
    facts = ("fsdp=yes", "fsdp_version=2", "trainer=yes", "lora=no", "tied_embeddings=yes")
    words = ["recommend", "-r", str(tmp_path / "pins.txt"), *(word for fact in facts for word in ("--set", fact))]
    said = CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
    assert said.stdout.startswith("pin accelerate 1.15.0")
    assert "the job has no deepspeed: this is about accelerate" in said.stderr


def test_releases_that_were_not_run_are_not_ruled_out() -> None:
    unknown = [advisory(affected=["0.18.0"], unaffected=["0.16.0"])]
    pin = choose_release(unknown, KnownJob(versions={}, facts={}), "deepspeed", ["0.17.0", "0.18.0"])
    assert not pin.is_ruled_out
    assert pin_headline(pin) == "not known which release of deepspeed to pin: some have faults, the others were not run"
