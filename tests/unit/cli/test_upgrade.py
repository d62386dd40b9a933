"""`upgrade` on published results: what is met on the way, and never a pass without data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from dsregress.cli import cli
from dsregress.cli.stored_results import way
from dsregress.errors import NothingMeasured, UsageError
from tests.paths import ROOT

DEFAULT = ROOT / "results" / "2026-11-26.jsonl.gz"


def say(file: str, *arguments: str) -> Result:
    words = ["upgrade", "--from", "-", *arguments, "--results", str(DEFAULT)]
    return CliRunner().invoke(cli, words, input=file, standalone_mode=False, catch_exceptions=False)


def test_a_changed_default_is_to_be_set() -> None:
    file = "deepspeed==0.16.8\ntorch==2.13.0+cu126\nnumpy==1.26.4\n"
    scenario = ("--scenario", "llama_zero3_backward")
    said = say(file, "--to", "0.19.8", *scenario, "--set", "gradient_clipping=unset", "--set", "scheduler=none")
    assert said.return_value == 1
    first, *lines = said.stdout.splitlines()
    assert first.startswith("deepspeed 0.16.8 -> 0.19.8: yes, if you set `gradient_clipping`; open, below: ")
    at = lines.index("  measured here: what the advisories decide, and no other problem")
    assert lines[at + 1 : at + 4] == [
        "    TRAINS DIFFERENTLY",
        "      gradient_clipping is 1.0 where it is not set, was 0.0. Set it; 0.0 keeps the old behaviour. "
        "See DSR-2026-0009.",
        "        since 0.19.8 (not in 0.18.9), until 0.19.8 (still in the newest measured)",
    ]
    assert "    COSTS MORE" in lines
    assert lines[-1] == "not checked: torch, which have no target version; 1 other package"


@pytest.mark.parametrize("results", ["2026-11-26.jsonl.gz", "2026-11-24-trainer-lora.jsonl.gz", "gone"])
def test_one_job_has_one_answer_whatever_was_measured(results: str) -> None:
    """LoRA by Trainer under ZeRO-3, whose verdict was another one in each of six bundles."""
    facts = [
        "lora=yes",
        "trainer=yes",
        "task=sft",
        "zero_stage=3",
        "dtype=bf16",
        "scheduler=none",
        "gradient_clipping=1.0",
    ]
    stated = [word for fact in facts for word in ("--set", fact)]
    pins = "deepspeed==0.16.8\ntorch==2.13.0\ntransformers==4.57.6\npeft==0.21.2\n"
    words = ["upgrade", "--from", "-", "--to", "0.19.8", *stated, "--results", str(ROOT / "results" / results)]
    said = CliRunner().invoke(cli, words, input=pins, standalone_mode=False, catch_exceptions=False)
    assert said.return_value == 1
    assert said.stdout.startswith(
        "deepspeed 0.16.8 -> 0.19.8: yes, if you use torch 2.9.1, put a `scheduler` into the DeepSpeed configuration or use"
    )


def test_a_card_that_holds_the_job_with_neither_release_is_named_in_the_first_line() -> None:
    said = say("deepspeed==0.15.0\n", "--to", "0.16.8", "--scenario", "llama3_70b_zero3", "--gpu", "A100-40G")
    assert said.stdout.splitlines()[0].endswith(
        "; llama3_70b_zero3 fits A100-40G with neither: needs 47.8 GiB, was 47.9 GiB"
    )


def test_a_stored_stack_whose_version_no_standard_knows_is_not_on_the_way() -> None:
    old, odd, new = (f"py3.11-torch2.13.0-deepspeed{version}" for version in ("0.15.0", "0.15.4_ours", "0.16.4"))
    found = way("deepspeed", {"deepspeed": "0.15.0"}, "0.16.4", [old, odd, new])
    assert found is not None
    assert (found.installed, found.target, found.stacks) == (old, new, (old, new))


def test_what_no_longer_fits_is_no_and_the_next_release_is_named() -> None:
    said = say("deepspeed==0.15.0\ntorch==2.5.1\n", "--to", "deepspeed==0.16.4", "--scenario", "llama3_70b_zero3")
    assert said.return_value == 1
    lines = said.stdout.splitlines()
    assert lines[0] == (
        "deepspeed 0.15.0 -> 0.16.4: no: Gathered parameters stay after backward, with non-reentrant checkpointing under "
        "ZeRO-3; go to deepspeed 0.16.8"
    )
    at = lines.index("  measured here: what the advisories decide, and no other problem")
    assert lines[at + 1] == "    OUT OF MEMORY"
    assert "does not fit A800-80G: needs 168 GiB, was 47.9 GiB. Use 0.16.8." in lines[at + 2]
    assert "since 0.16.0 (not in 0.15.4), until 0.16.7 (not in 0.16.8)" in lines[at + 3]
    assert lines[-3].endswith("not with yours: torch 2.5.1")


def test_a_card_with_the_room_has_the_leak_but_is_not_full() -> None:
    said = say("deepspeed==0.15.0\n", "--to", "0.16.4", "--scenario", "llama3_70b_zero3", "--gpu", "B200")
    lines = said.stdout.splitlines()
    at = lines.index("  measured here: what the advisories decide, and no other problem")
    assert lines[at + 1] == "    HOLDS MORE MEMORY"
    assert "llama-3-70b on 32 ranks fits B200" in lines[at + 2]


def test_a_release_with_nothing_new_is_no_known_problem() -> None:
    said = say("deepspeed==0.16.8\n", "--to", "0.16.9", "--scenario", "llama3_70b_zero3", "--set", "scheduler=none")
    assert said.return_value == 0
    first, *_, title, not_run, verdict, compared = said.stdout.splitlines()
    assert re.sub(r"\d+ advisor(y|ies)", "N advisories", first) == (
        "deepspeed 0.16.8 -> 0.16.9: no known problem; open, below: N advisories not run"
    )
    assert (title, not_run.partition(": ")[0]) == ("  not known, as it was not run:", "    deepspeed 0.16.9")
    assert (verdict, compared) == (
        "  measured here: yes",
        "    1 of 1 workload compared, with torch 2.13.0, transformers 4.57.6, accelerate 1.15.0, peft 0.21.2",
    )


def test_packages_that_change_are_judged_as_they_go_together_too() -> None:
    pins = "transformers==4.51.3\naccelerate==1.6.0\n"
    said = say(pins, "--to", "transformers==4.52.4", "--to", "accelerate==1.2.1", "--set", "trainer=yes")
    assert said.return_value == 1
    assert said.stdout.startswith(
        "together: transformers 4.51.3 -> 4.52.4, accelerate 1.6.0 -> 1.2.1: no: Trainer ends in init beside accelerate "
        "before 1.3: no argument 'keep_torch_compile'; go to accelerate 1.3.0\n  DSR-2026-0091 crashes: "
    )


def test_what_an_upgrade_brings_is_told_once_of_packages_that_go_together() -> None:
    pins = "transformers==4.57.6\ndeepspeed==0.16.8\n"
    said = say(pins, "--to", "transformers==5.24.0", "--to", "deepspeed==0.19.8", "--set", "zero_stage=3")
    assert said.stdout.count("  gained:\n") == 1
    assert (
        said.stdout.index("together: ") < said.stdout.index("  gained:\n") < said.stdout.index("\n\ndeepspeed 0.16.8")
    )


def test_differences_of_workloads_that_nobody_named_do_not_decide() -> None:
    said = say("deepspeed==0.16.8\n", "--to", "0.19.8", "--set", "zero_stage=3", "--set", "gradient_clipping=1.0")
    assert said.return_value == 0
    assert re.search(r"^  measured here: [1-9]\d? differences for the worse$", said.stdout, re.MULTILINE)


def test_a_package_that_no_advisory_is_about_needs_results() -> None:
    said = say("deepspeed==0.19.8\npeft==0.20.0\n", "--to", "latest", "--to", "peft==0.21.2")
    assert said.return_value == 4
    assert said.stdout.startswith(
        "deepspeed 0.19.8: yes, it is installed\n\n"
        "peft 0.20.0 -> 0.21.2: not known: no advisory is about peft for a job like this\n"
    )
    command = "dsregress regress --peft 0.20.0,0.21.2 --deepspeed 0.19.8 --baseline peft==0.20.0"
    assert f"measure it: {command}\n" in said.stdout


def test_a_release_that_was_not_measured_is_answered_by_advisories_and_its_command_is_named() -> None:
    said = say("deepspeed==0.16.8\n", "--to", "0.17.1", "--scenario", "llama3_70b_zero3")
    assert said.return_value == 0
    assert "  measured here: nothing (no results of both releases with the same other packages)" in said.stdout
    assert "regress --deepspeed 0.16.8,0.17.1 --baseline 0.16.8 --scenario llama3_70b_zero3" in said.stdout


def test_a_program_gets_the_answers_by_the_schema() -> None:
    said = say("deepspeed==0.16.8\npeft==0.20.0\n", "--set", "zero_stage=2", "--json", "-")
    written = json.loads(said.stdout)
    jsonschema.validate(written, json.loads((ROOT / "docs" / "schema" / "upgrade.schema.json").read_bytes()))
    text = say("deepspeed==0.16.8\npeft==0.20.0\n", "--set", "zero_stage=2").stdout
    assert [one["package"] for one in written["packages"]] == ["deepspeed", "peft"]
    assert all(one["answer"] in text for one in written["packages"])
    assert all(one["measure"] in text for one in written["packages"])
    assert written["packages"][1]["measure"].startswith("dsregress regress --peft 0.20.0,")


def test_what_a_reader_states_wins_over_the_scenario_that_is_measured_for_it(tmp_path: Path) -> None:
    settings = tmp_path / "ds.json"
    scheduler = {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 0}}
    settings.write_text(json.dumps({"zero_optimization": {"stage": 3}, "scheduler": scheduler, "gradient_clipping": 1}))
    pins = "deepspeed==0.16.8\ntransformers==4.57.6\npeft==0.18.0\n"
    said = say(pins, "--to", "0.19.8", "--scenario", "trainer_lora", "--config", str(settings))
    assert said.stdout.startswith("deepspeed 0.16.8 -> 0.19.8: yes, if you give at least one warmup step")


def test_a_program_states_its_job_by_its_line_and_not_by_how_it_would_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    said = say(
        "deepspeed==0.16.8\n", "--to", "0.19.8", "--program", "torchrun --nproc_per_node 8 train.py --ds z3.json"
    )
    assert "--set warmup_steps=N" in said.stdout or "warmup_steps (1)" in said.stdout


def test_a_file_without_any_known_package_is_no_pass() -> None:
    with pytest.raises(NothingMeasured, match="stdin|-: has none of deepspeed, torch, transformers"):
        say("numpy==1.26.4\n")
    with pytest.raises(NothingMeasured, match=r"does not pin the installed release of deepspeed \(not pinned\)"):
        say("deepspeed>=0.16\n")


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("torch==2.5.1", "has no release of torch"),
        ("new", "'new' is not a version"),
        ("deepspeed==", "'' is not a ver"),
    ],
)
def test_a_target_that_cannot_be_meant_is_one_line(to: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        say("deepspeed==0.16.8\n", "--to", to)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none.txt: cannot be read: No such file"):
        CliRunner().invoke(
            cli, ["upgrade", "--from", str(tmp_path / "none.txt")], standalone_mode=False, catch_exceptions=False
        )


def test_a_program_that_is_not_here_is_judged_by_what_its_launch_line_states() -> None:
    line = "torchrun --nproc_per_node 8 gone.py --bf16"
    said = say("deepspeed==0.16.8\n", "--to", "0.19.8", "--program", line)
    assert said.return_value == 0
    assert said.stdout.startswith("deepspeed 0.16.8 -> 0.19.8: no known problem")
    assert "no such file: gone.py" in said.stderr
    with pytest.raises(UsageError, match="no such file: gone.py"):
        say("deepspeed==0.16.8\n", "--to", "0.19.8", "--program", line, "--measure")


def test_what_a_lock_does_not_have_is_not_asked_for(tmp_path: Path) -> None:
    lock = tmp_path / "uv.lock"
    packages = {"deepspeed": "0.16.8", "torch": "2.9.1", "transformers": "4.57.6"}
    lock.write_text("".join(f'[[package]]\nname = "{name}"\nversion = "{one}"\n' for name, one in packages.items()))
    said = [
        CliRunner().invoke(cli, [*words, str(lock), "--to", "0.19.8"], standalone_mode=False, catch_exceptions=False)
        for words in (["audit", "-r"], ["upgrade", "--results", str(tmp_path), "--from"])
    ]
    audit, upgrade = (one.stdout.splitlines()[0] for one in said)
    assert audit == upgrade
    assert "openrlhf" not in said[1].stdout


@pytest.mark.parametrize(("package", "version"), [("vllm", "0.12.0"), ("trl", "latest")])
def test_a_package_that_only_advisories_know_can_be_upgraded(package: str, version: str) -> None:
    said = say("deepspeed==0.17.1\ntrl==0.19.0\nvllm==0.9.2\nopenrlhf==0.8.5\n", "--to", f"{package}=={version}")
    assert re.match(rf"{package} [\d.]+ -> [\d.]+: no known problem", said.stdout)


def test_a_build_for_a_card_is_its_release() -> None:
    lines = [say("torch==2.9.1\n", "--to", f"torch==2.13.0{build}").stdout.splitlines()[0] for build in ("", "+cu126")]
    assert lines[0] == lines[1]


def test_latest_releases_that_cannot_be_installed_together_give_way_and_say_so() -> None:
    said = say("openrlhf==0.8.5\ndeepspeed==0.17.1\ntransformers==4.52.4\n")
    assert said.stderr.splitlines()[:2] == [
        "dsregress: not the latest of each: openrlhf 0.11.2 requires deepspeed==0.19.6, not 0.19.8",
        "dsregress: not the latest of each: openrlhf 0.11.2 requires transformers==5.15.0, not 5.24.0",
    ]
    assert said.stdout.startswith("together: deepspeed 0.17.1 -> 0.19.6, transformers 4.52.4 -> 5.15.0 and 1 more: ")


def test_packages_that_go_together_have_one_exit_code_whatever_each_alone_would_have() -> None:
    pins = "trl==0.19.0\ntransformers==4.53.2\naccelerate==1.11.0\n"
    alone = say(pins, "--to", "trl==1.16.0")
    assert (alone.return_value, "cannot be installed together" in alone.stdout) == (1, True)
    together = say(pins, "--to", "trl==1.16.0", "--to", "transformers==4.57.6")
    assert "cannot be installed together" not in together.stdout
    assert together.return_value == 0


def test_a_package_that_no_advisory_is_about_is_answered_if_it_is_named_whatever_its_spelling() -> None:
    said = say("ms_swift==3.5.1\ndeepspeed==0.16.9\n", "--to", "ms_swift==4.6.0")
    assert said.stdout.startswith("ms-swift 3.5.1 -> 4.6.0: not measured here")


def test_a_release_that_stays_is_no_yes_if_the_job_has_a_fault_with_it(tmp_path: Path) -> None:
    pins = "deepspeed==0.18.2\ntorch==2.9.1\n"
    facts = ("--set", "zero_stage=2", "--set", "gradient_accumulation_steps=4", "--set", "offload_optimizer=no")
    said = say(pins, "--to", "0.18.2", *facts, "--json", str(tmp_path / "answer.json"))
    assert said.return_value == 1
    assert said.stdout.startswith(
        "deepspeed 0.18.2: it is installed, with 1 known fault\n  DSR-2026-0002 trains wrong: "
    )
    (found,) = json.loads((tmp_path / "answer.json").read_text())["packages"]
    assert (found["verdicts"], found["against"]) == (["no"], ["DSR-2026-0002"])
    fine = say(pins, "--to", "0.18.2", "--set", "zero_stage=3")
    assert (fine.return_value, fine.stdout.splitlines()[0]) == (0, "deepspeed 0.18.2: yes, it is installed")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (
            ("--to", "99.0.0"),
            "measure it, with a dsregress that knows deepspeed 99.0.0: dsregress regress --deepspeed ",
        ),
        (("--to", "trl==0.25.0"), " --baseline trl==0.24.0 --program 'YOUR LAUNCH LINE'\n"),
        (("--to", "0.18.9", "--set", "deepspeed=no"), " --baseline 0.18.2 --program 'YOUR LAUNCH LINE'\n"),
    ],
)
def test_what_is_to_be_measured_is_the_readers_own_unless_a_scenario_stands_for_it(
    words: tuple[str, ...], command: str, tmp_path: Path
) -> None:
    said = say("deepspeed==0.18.2\ntrl==0.24.0\n", *words, "--results", str(tmp_path))
    assert command in said.stdout


def test_the_same_question_has_the_same_exit_code_in_audit_and_upgrade(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("deepspeed==0.18.2\npeft==0.18.0\ndatasets==4.0.0\n")
    new.write_text("deepspeed==0.19.8\npeft==0.21.2\ndatasets==5.2.0\n")
    facts = ("--set", "zero_stage=3", "--set", "gradient_clipping=1")
    codes = [
        CliRunner().invoke(cli, [*words, str(old), "--to", str(new), *facts], standalone_mode=False).return_value
        for words in (["audit", "-r"], ["upgrade", "--from"])
    ]
    assert codes == [0, 0]


def test_a_program_that_was_given_before_and_is_gone_is_judged_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    first = say("deepspeed==0.16.8\n", "--to", "0.19.8", "--program", "python train.py")
    (tmp_path / "train.py").unlink()
    (tmp_path / "pins.txt").write_text("deepspeed==0.16.8\n")
    words = ("upgrade", "--from", "pins.txt", "--to", "0.19.8", "--program", "python train.py")
    again = subprocess.run([sys.executable, "-m", "dsregress", *words], capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout.splitlines()[0]) == (first.return_value, first.stdout.splitlines()[0])
    assert "no results of it are looked up" in again.stderr
