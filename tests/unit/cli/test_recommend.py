"""`recommend` of a scenario without results: the advisories answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dsregress.cli import cli
from dsregress.errors import NothingMeasured, UsageError
from tests.paths import ROOT


def recommend(*words: str) -> Result:
    return CliRunner().invoke(cli, ["recommend", *words], standalone_mode=False, catch_exceptions=False)


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(ROOT)
    return str(tmp_path)


def test_without_results_the_advisories_answer_as_they_do_with_some(nothing: str) -> None:
    measured, unmeasured = (
        recommend("trainer_lora", "--results", one) for one in (str(ROOT / "results" / "2026-11-28.jsonl.gz"), nothing)
    )
    assert measured.return_value == unmeasured.return_value == 0
    pinned = "pin deepspeed 0.19.8, if you have the memory for 1 leak (below); open, below: "
    assert unmeasured.stdout.startswith(pinned)
    assert pinned in measured.stdout
    assert "`dsregress regress --scenario trainer_lora --variant base --device sim` measures it" in unmeasured.stderr


def test_a_scenario_of_which_no_advisory_knows_anything_needs_results(nothing: str) -> None:
    with pytest.raises(NothingMeasured, match="no results of trainer_fsdp2"):
        recommend("trainer_fsdp2", "--results", nothing)


def test_results_of_another_package_are_about_that_package(nothing: str) -> None:
    """They need no baseline of the configured one, and the facts are those that were in force when the program ran."""
    said = recommend("trainer_fsdp2", "--results", str(ROOT / "results" / "2026-11-27-accelerate.jsonl.gz"))
    assert said.return_value == 0
    lines = said.stdout.splitlines()
    assert lines[0].endswith("which release of accelerate to pin?")
    assert lines[2] == "pin accelerate 1.15.0"
    by_release = {line.split()[0]: line for line in lines if line.startswith("  1.1")}
    assert "no verdict: failed in forward: ValueError: Parameter 'model.embed_tokens.weight'" in by_release["1.14.0"]
    assert "DSR-2026-0094" in by_release["1.13.0"]


def test_a_job_is_a_scenario_or_one_of_the_readers_own(nothing: str) -> None:
    with pytest.raises(UsageError) as caught:
        recommend("trainer_lora", "-r", "docs/upgrade/requirements.txt")
    assert caught.value.what == "trainer_lora and -r"


def test_a_call_without_a_job_says_how_to_give_one(nothing: str) -> None:
    with pytest.raises(UsageError, match="no packages and no workload; give -r FILE for a job of your own, or name a"):
        recommend()


def test_a_package_that_is_named_without_a_release_is_the_one_to_choose_a_release_of(nothing: str) -> None:
    said = recommend("-r", "docs/upgrade/requirements.txt", "--config", "docs/upgrade/ds_zero3.json", "--with", "trl")
    assert said.stdout.startswith("pin trl 1.16.0")


PINS = "deepspeed==0.18.2\ntransformers==5.3.0\naccelerate==1.10.1\npeft==0.18.0\ntrl==0.29.0\ntorch==2.9.1\n"
WITHOUT_DEEPSPEED = ("--set", "deepspeed=no", "--set", "trainer=yes", "--set", "gradient_accumulation_steps=8")


@pytest.fixture
def pins(nothing: str) -> str:
    (Path(nothing) / "pins.txt").write_text(PINS)
    return str(Path(nothing) / "pins.txt")


def test_a_job_without_deepspeed_is_about_a_package_that_decides_a_fault_of_it(pins: str) -> None:
    said = recommend("-r", pins, *WITHOUT_DEEPSPEED)
    assert "dsregress: the job does not use deepspeed (--set deepspeed): this is about transformers\n" in said.stderr
    assert said.stdout.startswith("pin transformers 5.24.0")


@pytest.mark.parametrize(
    ("words", "pinned"),
    [
        (("--transformers", ">=5.2,<5.4"), "no release of transformers is free of faults for this job\n"),
        (("--transformers", "5.3.0,5.15.0"), "pin transformers 5.15.0"),
        (("--with", "trl=>=0.29,<1"), "pin trl 0.29.1"),
        (("--accelerate", "==1.12.0", "--transformers", "5.3.0,5.15.0"), "pin transformers 5.15.0"),
    ],
)
def test_an_option_that_names_several_releases_says_which_package_it_is_about(
    pins: str, words: tuple[str, ...], pinned: str
) -> None:
    settings = WITHOUT_DEEPSPEED if words[0] != "--with" else ("--set", "zero_stage=3")
    assert recommend("-r", pins, *words, *settings).stdout.startswith(pinned)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("--transformers", ">=5", "--with", "trl=>=0.20"),
            "several releases of transformers, trl; name one release of",
        ),
        (("--fail-on", "memory"), "--fail-on and -r; leave it out"),
    ],
)
def test_options_that_a_job_of_ones_own_does_not_take_are_refused(
    pins: str, words: tuple[str, ...], error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        recommend("-r", pins, *words)


def test_the_release_that_a_job_has_is_weighed_though_no_advisory_ran_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pins = "trl==0.18.2\ntransformers==4.50.3\naccelerate==1.9.0\ntorch==2.7.1\ndeepspeed==0.17.1\n"
    (tmp_path / "pins.txt").write_text(pins, encoding="utf-8")
    said = recommend(
        "-r", "pins.txt", "--with", "trl", "--set", "task=sft", "--set", "zero_stage=3", "--set", "trainer=yes"
    )
    assert said.stdout.startswith("pin trl 0.18.2")
