"""`audit`: what a reader sees, and its exit codes."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from dsregress.advisories.advisory import Advisory, AdvisoryKind, Remedy, Ruling
from dsregress.cli import audit, cli, ignored_advisories, stated_jobs
from dsregress.config.audit import IgnoredAdvisory
from dsregress.errors import NothingMeasured, UsageError
from tests.builders.advisories import advisory
from tests.paths import ROOT

Say = Callable[..., Result]

QUARTER = advisory(
    1,
    "The gradient is too small with accumulation",
    affected=["0.18.3", "0.18.9"],
    unaffected=["0.16.8", "0.18.2", "0.19.6", "0.19.8"],
    needs={"zero_stage": ([1, 2], [3]), "gradient_accumulation_steps": ([2, 4], [1])},
    remedies=[
        Remedy(text="use 0.19.6", package="deepspeed", version="0.19.6"),
        Remedy(text="ZeRO stage 3", fact="zero_stage", value=3),
    ],
    sees="a gradient norm that is too small by the number of micro-batches",
)
CRASH = advisory(
    2,
    "LoRA ends in torch's schedule",
    kind=AdvisoryKind.CRASHES,
    package="torch",
    affected=["2.10.0", "2.13.0"],
    unaffected=["2.9.1"],
    needs={"lora_rank": ([8], [0]), "scheduler": (["none"], ["WarmupDecayLR"])},
    remedies=[
        Remedy(text="use torch 2.9.1", package="torch", version="2.9.1"),
        Remedy(text="put a `scheduler` into the DeepSpeed configuration", fact="scheduler", value="WarmupDecayLR"),
    ],
    sees="ValueError: zip() argument 2 is longer than argument 1",
)
WARMUP = advisory(
    3,
    "A schedule without a warmup is refused",
    kind=AdvisoryKind.CRASHES,
    ruling=Ruling.CHANGE,
    affected=["0.19.3", "0.19.8"],
    unaffected=["0.16.8", "0.19.2"],
    needs={"scheduler": (["WarmupDecayLR"], ["none"]), "warmup_steps": ([0], [1])},
    remedies=[Remedy(text="give at least one warmup step", fact="warmup_steps", value=1)],
)
SAVED = advisory(
    4,
    "LoRA's adapters are saved in fp32",
    kind=AdvisoryKind.SAVES_DIFFERENTLY,
    ruling=Ruling.CHANGE,
    affected=["0.19.2", "0.19.8"],
    unaffected=["0.16.8", "0.19.1"],
    needs={"lora_rank": ([8], [0]), "zero_stage": ([3], [2])},
)
ENDS = advisory(
    5,
    "The first step of adapters ends",
    kind=AdvisoryKind.CRASHES,
    affected=["0.19.2"],
    unaffected=["0.16.8", "0.19.1", "0.19.3", "0.19.8"],
    needs={"lora_rank": ([8], [0])},
)
LOADED = advisory(
    6,
    "A checkpoint is not loaded",
    kind=AdvisoryKind.CRASHES,
    affected=["0.16.8", "0.19.8"],
    unaffected=["0.15.0"],
    needs={"resume": ([True], [False])},
)
MORE = advisory(
    7,
    "More collectives",
    kind=AdvisoryKind.MORE_WORK,
    ruling=Ruling.CHANGE,
    affected=["0.18.9", "0.19.8"],
    unaffected=["0.16.8"],
    needs={"zero_stage": ([3], [2])},
)
HEAD = advisory(
    8,
    "A trained head ends the job",
    kind=AdvisoryKind.CRASHES,
    affected=["0.16.4", "0.16.8"],
    unaffected=["0.19.3", "0.19.8"],
    needs={"lora_rank": ([8], [0])},
)
ALL = (QUARTER, CRASH, WARMUP, SAVED, ENDS, LOADED, MORE, HEAD)

PINS = "deepspeed==0.16.8\ntorch==2.13.0+cu126\ntransformers==4.57.6\n"


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Return a function that runs `audit` in a folder with files, on advisories that are made up."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(
        json.dumps({"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}, "gradient_accumulation_steps": 4})
    )

    def run(*arguments: str, pins: str = PINS, advisories: Sequence[Advisory] = ALL) -> Result:
        monkeypatch.setattr(audit, "read_advisories", lambda: tuple(advisories))
        words = ["audit", "-r", "-", *arguments]
        return CliRunner().invoke(cli, words, input=pins, standalone_mode=False, catch_exceptions=False)

    return run


def test_a_job_of_a_release_that_is_not_known_is_no_pass(say: Say) -> None:
    said = say(
        "--config", "ds.json", "--set", "zero_stage=2", pins="deepspeed==0.95.3\ntorch==2.9.1\n", advisories=[QUARTER]
    )
    assert said.return_value == 4
    assert said.stdout.startswith("not known: deepspeed 0.95.3 was not run; ")
    assert "deepspeed 0.95.3 is newer than all that are known here, up to 0.19.8" in said.stderr


def test_a_number_between_two_releases_is_no_release(say: Say) -> None:
    said = say("--config", "ds.json", "--set", "zero_stage=2", "--to", "deepspeed==0.17.99", advisories=[QUARTER])
    assert said.return_value == 4
    assert said.stdout.startswith("deepspeed 0.16.8 -> 0.17.99: not known: deepspeed 0.17.99 was not run\n")
    assert "deepspeed 0.17.99 is no release that is known here" in said.stderr


def test_what_concerns_a_job_comes_with_its_reasons_and_remedies(say: Say) -> None:
    said = say("--config", "ds.json", "--set", "lora=yes")
    assert said.return_value == 1
    assert said.stdout == (
        "2 of 8 advisories concern this job; 1 more may, by what was not stated\n"
        "\n"
        "DSR-2026-0002 crashes: LoRA ends in torch's schedule\n"
        "  you see: ValueError: zip() argument 2 is longer than argument 1\n"
        "  because: torch 2.13.0, adapters of rank 8 (--set lora), no `scheduler` in DeepSpeed's configuration"
        " (ds.json: no scheduler)\n"
        "  remedy: use torch 2.9.1; or put a `scheduler` into the DeepSpeed configuration\n"
        "\n"
        "DSR-2026-0008 crashes: A trained head ends the job\n"
        "  because: deepspeed 0.16.8, adapters of rank 8 (--set lora)\n"
        "  remedy: none is known\n"
        "\n"
        "not stated:\n"
        "  1 more with a new engine that loads the checkpoint (--set resume=yes|no): DSR-2026-0006\n"
        "\n"
        "5 other advisories do not concern it\n"
    )


def test_an_upgrade_is_answered_as_an_engineer_would(say: Say) -> None:
    said = say("--config", "ds.json", "--set", "lora=yes", "--set", "checkpoint=no", "--to", "deepspeed==0.19.8")
    assert said.return_value == 1
    assert said.stdout == (
        "deepspeed 0.16.8 -> 0.19.8: yes, if you use torch 2.9.1 or put a `scheduler` into the DeepSpeed configuration\n"
        "\n"
        "DSR-2026-0002 crashes (in both): LoRA ends in torch's schedule\n"
        "  you see: ValueError: zip() argument 2 is longer than argument 1\n"
        "  because: torch 2.13.0, adapters of rank 8 (--set lora), no `scheduler` in DeepSpeed's configuration"
        " (ds.json: no scheduler)\n"
        "  remedy: use torch 2.9.1; or put a `scheduler` into the DeepSpeed configuration\n"
        "\n"
        "if you put a `scheduler` into the DeepSpeed configuration, with no warmup steps: DSR-2026-0003 A schedule without a"
        " warmup is refused: give at least one warmup step\n"
        "\n"
        "changes:\n"
        "  DSR-2026-0004 LoRA's adapters are saved in fp32\n"
        "\n"
        "gained:\n"
        "  DSR-2026-0008 A trained head ends the job\n"
        "\n"
        "costs:\n"
        "  DSR-2026-0007 More collectives\n"
        "\n"
        "skip on the way:\n"
        "  deepspeed 0.19.2: DSR-2026-0005 The first step of adapters ends\n"
        "\n"
        "5 other advisories do not concern it\n"
    )


def test_a_release_that_is_ruled_out_has_another_instead(say: Say) -> None:
    facts = ("--set", "zero_stage=2", "--set", "gradient_accumulation_steps=8", "--set", "checkpoint=no")
    said = say(*facts, "--to", "0.18.9", advisories=[QUARTER])
    assert said.return_value == 1
    assert said.stdout == (
        "deepspeed 0.16.8 -> 0.18.9: no: The gradient is too small with accumulation; go to deepspeed 0.19.6\n"
        "\n"
        "DSR-2026-0001 trains wrong: The gradient is too small with accumulation\n"
        "  you see: a gradient norm that is too small by the number of micro-batches\n"
        "  because: deepspeed 0.18.9, ZeRO stage 1 or 2 (--set zero_stage), gradient accumulation above 1"
        " (--set gradient_accumulation_steps)\n"
        "  remedy: use 0.19.6; or train with ZeRO stage 3\n"
    )


def test_a_release_that_was_not_run_is_measured_by_a_command(say: Say) -> None:
    said = say("--to", "0.19.9", "--program", "torchrun train.py --lr 1e-5", advisories=[QUARTER])
    assert said.return_value == 4
    assert said.stdout == (
        "deepspeed 0.16.8 -> 0.19.9: not known: deepspeed 0.19.9 was not run\n"
        "\n"
        "not known, as it was not run:\n"
        "  deepspeed 0.19.9: DSR-2026-0001 The gradient is too small with accumulation\n"
        "\n"
        "measure it, with a dsregress that knows deepspeed 0.19.9: dsregress regress --deepspeed 0.16.8,0.19.9 "
        "--torch 2.13.0 --transformers 4.57.6 --baseline 0.16.8 --program 'torchrun train.py --lr 1e-5'\n"
    )


def test_nothing_that_concerns_a_job_is_exit_code_0(say: Say) -> None:
    said = say("--set", "lora=no", "--set", "checkpoint=no")
    assert (said.return_value, said.stdout.splitlines()[0]) == (0, "none of 8 advisories is known to concern this job")


def test_another_lock_says_where_to_go(say: Say, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("deepspeed==0.19.8\ntorch==2.9.1\nnumpy==2.0.0\n")
    said = say("--config", "ds.json", "--set", "lora=yes", "--set", "checkpoint=no", "--to", "new.txt")
    assert said.stdout.splitlines()[0] == "deepspeed 0.16.8 -> 0.19.8, torch 2.13.0 -> 2.9.1: yes"
    assert said.return_value == 0


def test_two_places_that_contradict_each_other_are_named(say: Say) -> None:
    said = say("--config", "ds.json", "--program", "torchrun train.py --gradient_accumulation_steps 8")
    assert said.stderr == (
        "dsregress: gradient_accumulation_steps is stated in two ways: gradient accumulation 4 "
        "(ds.json: gradient_accumulation_steps), and gradient accumulation 8 (--program: --gradient_accumulation_steps)\n"
    )


def test_a_file_of_another_machine_is_noted(say: Say) -> None:
    said = say("--program", "deepspeed train.py --deepspeed /mnt/ds.json")
    assert said.stderr == (
        "dsregress: /mnt/ds.json is not here, so that what it states is not known: give it with --config\n"
    )


def test_an_advisory_is_left_out_until_a_day(say: Say, tmp_path: Path) -> None:
    text = '[tool.dsregress.audit]\nignore = [{ id = "DSR-2026-0008", reason = "no head", expires = 2999-01-01 }]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    arguments = ("--config", "ds.json", "--set", "lora=yes", "--ignore", "DSR-2026-0002")
    said = say(*arguments)
    assert said.return_value == 0
    assert "ignored: DSR-2026-0002, DSR-2026-0008\n" in said.stdout
    (tmp_path / "pyproject.toml").write_text(text.replace("2999", "2020"))
    expired = say(*arguments)
    assert expired.return_value == 1
    assert expired.stderr == "dsregress: DSR-2026-0008 was ignored until 2020-01-01 (no head); it is no longer\n"


def test_what_a_project_leaves_out_is_left_out_of_upgrade_and_recommend_as_well(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "req.txt").write_text("deepspeed==0.16.8\n")
    hidden = [one.id for one in ALL]
    entries = ", ".join(f'{{ id = "{one}", reason = "not ours", expires = 2999-01-01 }}' for one in hidden)
    (tmp_path / "pyproject.toml").write_text(f"[tool.dsregress.audit]\nignore = [{entries}]\n")
    monkeypatch.setattr(ignored_advisories, "read_advisories", lambda: ALL)
    for command in (["upgrade", "--from", "req.txt", "--to", "0.19.8"], ["recommend", "-r", "req.txt"]):
        said = CliRunner().invoke(cli, command, standalone_mode=False)
        assert f"dsregress: ignored: {', '.join(hidden)} ([tool.dsregress.audit])" in said.stderr
        assert "DSR-" not in said.stdout


def test_an_ignored_advisory_needs_a_reason(say: Say, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="DSR-2026-0001 is ignored without a reason"):
        IgnoredAdvisory(id="DSR-2026-0001", reason=" ", expires=datetime.date(2027, 1, 1))
    with pytest.raises(UsageError, match="--ignore: no such advisory: DSR-2026-9999; did you mean"):
        say("--ignore", "DSR-2026-9999")


def test_packages_that_no_advisory_knows_are_no_pass(say: Say) -> None:
    with pytest.raises(NothingMeasured, match="stdin: has none of deepspeed, torch; `pip freeze > installed.txt`"):
        say(pins="numpy==2.0.0\n")
    with pytest.raises(
        NothingMeasured, match=r"stdin: does not pin deepspeed \(not pinned\); `pip freeze > installed.txt`"
    ):
        say(pins="deepspeed>=0.16\n")


def test_a_package_of_an_unknown_release_is_named(say: Say) -> None:
    said = say("--set", "lora=no", pins="deepspeed @ git+https://github.com/deepspeedai/DeepSpeed\ntorch==2.13.0\n")
    assert said.stderr == "dsregress: deepspeed: not a release, so that its release is not known\n"
    assert "3 more by deepspeed (3)" in said.stdout


def test_a_lock_names_what_is_not_installed(say: Say, tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "deepspeed"\nversion = "0.16.8"\n')
    words = ["audit", "-r", "uv.lock", "--set", "lora=yes", "--set", "scheduler=none"]
    say()  # with the made-up advisories
    whole = CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
    assert "DSR-2026-0002" not in whole.stdout  # without torch nothing of torch concerns it
    assert "DSR-2026-0002" in say("--set", "lora=yes", pins="deepspeed==0.16.8\n").stdout + say("--json", "-").stdout


@pytest.mark.parametrize("to", [(), ("--to", "0.19.8"), ("--to", "0.19.9")])
def test_the_json_follows_its_schema(say: Say, to: tuple[str, ...]) -> None:
    said = say("--config", "ds.json", "--set", "lora=yes", *to, "--json", "-")
    written = json.loads(said.stdout)
    schema = json.loads((ROOT / "docs" / "schema" / "audit.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(written, schema)
    assert written["answer"] == say("--config", "ds.json", "--set", "lora=yes", *to).stdout.splitlines()[0]
    assert {"name": "zero_stage", "value": 3, "source": "ds.json: zero_optimization.stage"} in written["job"]["facts"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--to", "deepspeed==nine"), "--to: 'nine' is not a version; write e.g. deepspeed==0.19.8"),
        (("--to", "peft==0.1.0"), "--to: stdin does not pin peft; it pins deepspeed, torch"),
        (("--to", "gone.lock"), "gone.lock: cannot be read: No such file or directory; "
                                "name a requirements file, uv.lock or poetry.lock, or - for stdin"),
        (("--set", "zero_stage=9"), "--set: zero_stage is never '9'; write 0|1|2|3"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(say: Say, arguments: tuple[str, ...], error: str) -> None:
    with pytest.raises(UsageError) as refused:
        say(*arguments)
    assert str(refused.value) == error


def test_packages_are_needed() -> None:
    with pytest.raises(UsageError, match="command line: no packages; give -r FILE or --python PATH"):
        CliRunner().invoke(cli, ["audit"], standalone_mode=False, catch_exceptions=False)


def test_a_card_that_decides_nothing_is_said_to(say: Say) -> None:
    said = say("--gpu", "A100-40G")
    assert "no advisory depends on which card it is: whether the job fits A100-40G, `fit` measures" in said.stdout


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lora=yes", "lora=no"),
        ("lora=yes", "lora_rank=0"),
        ("zero_stage=2", "zero_stage=3"),
        ("zero_stage=2", "deepspeed=no"),
        ("zero_stage=3", "fsdp=yes"),
        ("zero_stage=2", "offload_param=yes"),
        ("universal=yes", "checkpoint=no"),
        ("trainer=yes", "objective=two_backwards"),
    ],
)
def test_statements_that_exclude_each_other_are_refused(say: Say, one: str, other: str) -> None:
    with pytest.raises(UsageError, match=r"--set: .* exclude each other"):
        say("--set", one, "--set", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lora=yes", "lora_rank=64"),
        ("fsdp=yes", "gradient_clipping=1.0"),  # of DeepSpeed's configuration there is none: it is Trainer's
        ("task=grpo", "generates=no"),  # an engine beside it does
        ("trainer=yes", "model_outputs=loss"),
    ],
)
def test_statements_that_go_together_are_taken(say: Say, one: str, other: str) -> None:
    assert say("--set", one, "--set", other).return_value is not None


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("gradient_accumulation_steps=-4", "gradient_accumulation_steps is never -4; write a number from 1 on"),
        ("world_size=0", "world_size is never 0; write a number from 1 on"),
        ("warmup_steps=-1", "warmup_steps is never -1; write a number from 0 on"),
        ("gradient_clipping=-0.5", "gradient_clipping is never -0.5; write a number from 0 on"),
    ],
)
def test_numbers_that_no_job_has_are_refused(say: Say, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(hint)):
        say("--set", text)


def test_two_files_that_pin_a_package_differently_are_refused(say: Say, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.txt", "b.txt")]
    for file, release in zip(files, ("0.16.8", "0.19.8"), strict=True):
        file.write_text(f"deepspeed=={release}\n")
    told = re.escape(f"-r: deepspeed is 0.16.8 in {files[0]} and 0.19.8 in {files[1]}; leave one of them out")
    with pytest.raises(UsageError, match=told):
        CliRunner().invoke(
            cli, ["audit", "-r", str(files[0]), "-r", str(files[1])], standalone_mode=False, catch_exceptions=False
        )


@pytest.fixture
def llamafactory_pins(tmp_path: Path) -> str:
    """Return a file that pins LLaMA-Factory, which has no option of its own."""
    file = tmp_path / "llamafactory.txt"
    file.write_text("deepspeed==0.16.4\ntransformers==4.55.4\nllamafactory==0.9.4\ntrl==0.24.0\nnumpy==1.26.4\n")
    return str(file)


def test_what_a_job_gains_by_a_package_is_known_of_that_package(tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("deepspeed==0.16.4\ntransformers==4.52.4\nllamafactory==0.9.3\nnumpy==1.26.4\npyarrow==26.0.1\n")
    said = CliRunner().invoke(cli, ["audit", "-r", str(pins), "--to", "llamafactory==0.9.4"])
    assert "DSR-2026-0081" in said.stdout
    assert "no advisory is known to be about llamafactory" not in said.stdout


def test_the_command_that_measures_varies_what_changes_whether_advisories_know_it_or_not(tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("deepspeed==0.16.4\ndatasets==4.0.0\n")
    said = CliRunner().invoke(cli, ["audit", "-r", str(pins), "--to", "datasets==4.7.0"])
    assert (
        "measure it: dsregress regress --with datasets=4.0.0,4.7.0 --deepspeed 0.16.4 --baseline datasets=="
        in said.stdout
    )


def test_the_command_that_measures_names_all_that_advisories_know_of(llamafactory_pins: str) -> None:
    said = CliRunner().invoke(cli, ["audit", "-r", llamafactory_pins, "--to", "llamafactory==0.9.5"])
    assert (
        "measure it: dsregress regress --with llamafactory=0.9.4,0.9.5 --deepspeed 0.16.4 --transformers 4.55.4 "
        "--with trl=0.24.0 --baseline llamafactory==0.9.4 --program 'YOUR LAUNCH LINE'\n"
    ) in said.stdout


def test_an_upgrade_that_cannot_be_installed_says_what_is_required_and_which_release_would_do(
    llamafactory_pins: str,
) -> None:
    said = CliRunner().invoke(cli, ["audit", "-r", llamafactory_pins, "--to", "transformers==5.24.0"])
    first, _, conflict, *_ = said.stdout.splitlines()
    required = "llamafactory 0.9.4 requires transformers!=4.52.0,!=4.57.0,<=4.57.1,>=4.51.0, not 5.24.0"
    assert first.startswith(f"transformers 4.55.4 -> 5.24.0: no: {required} and 1 more; go to transformers 4.")
    assert conflict == f"cannot be installed together: {required}"


def test_a_range_is_told_and_a_goal_with_ranges_takes_what_an_installer_would(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("deepspeed==0.16.4\ntransformers==4.55.4\naccelerate==1.11.0\ntorch>=2.5,<2.10\n")
    new.write_text("deepspeed==0.16.8\ntransformers>=4.56,<4.57\naccelerate>=1.10\ntorch>=2.5,<2.10\n")
    said = CliRunner().invoke(cli, ["audit", "-r", str(old), "--to", str(new)])
    assert said.stderr.splitlines() == [
        "dsregress: torch >=2.5,<2.10: not pinned, so that only what all these releases share is known",
        f"dsregress: {new} does not pin transformers >=4.56,<4.57: 4.56.2 is taken, the newest known of these",
    ]
    assert said.stdout.startswith("deepspeed 0.16.4 -> 0.16.8, transformers 4.55.4 -> 4.56.2: ")


def test_a_configuration_is_no_list_of_packages(say: Say, tmp_path: Path) -> None:
    file = tmp_path / "z3.json"
    file.write_text('{"zero_optimization": {"stage": 3}}')
    with pytest.raises(UsageError, match="is JSON, and no list of packages; a configuration is given by --config"):
        say("--to", str(file))


@pytest.mark.parametrize(
    ("goal", "error"),
    [
        ("deepspeed", "--to: 'deepspeed' names no release; write deepspeed==VERSION"),
        ("deepspeed>=0.18", "--to: 'deepspeed>=0.18' is no single release; write deepspeed==VERSION"),
        ("deepspeed=0.18.9", "--to: 'deepspeed=0.18.9' is no single release; write deepspeed==VERSION"),
        ("gone.txt", "gone.txt: cannot be read: No such file or directory; name a requirements file"),
    ],
)
def test_a_goal_without_a_release_is_one_line(tmp_path: Path, goal: str, error: str) -> None:
    (tmp_path / "pins.txt").write_text("deepspeed==0.16.8\n")
    words = ["audit", "-r", str(tmp_path / "pins.txt"), "--to", goal]
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
    assert str(refused.value).startswith(error)


def test_packages_for_gpus_state_the_usual_device(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text("torch==2.8.0+cu126\ndeepspeed==0.16.8\n")
    for more, device, source in (
        ([], "cuda", f"{tmp_path}/pins.txt: torch 2.8.0+cu126"),
        (["--set", "device=cpu"], "cpu", "--set device"),
    ):
        words = ["audit", "-r", str(tmp_path / "pins.txt"), *more, "--json", str(tmp_path / "a.json")]
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
        facts = json.loads((tmp_path / "a.json").read_text())["job"]["facts"]
        (fact,) = [one for one in facts if one["name"] == "device"]
        assert (fact["value"], fact["source"]) == (device, source)


def test_a_release_that_is_newer_than_all_that_are_known_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text("deepspeed==99.0.0\n")
    said = CliRunner().invoke(cli, ["audit", "-r", str(tmp_path / "pins.txt")])
    assert "deepspeed 99.0.0 is newer than all that are known here, up to 0.19." in said.stderr


def test_a_goal_that_is_installed_already_is_the_audit_of_the_job_as_it_is(say: Say) -> None:
    as_it_is, same = say(), say("--to", "0.16.8")
    assert (same.stdout, same.return_value) == (as_it_is.stdout, as_it_is.return_value)
    assert same.stderr == "dsregress: no package changes: the job is audited as it is\n"


def test_a_file_of_requirements_is_read_with_those_that_it_includes(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("deepspeed==0.16.8\n-r all.txt\n")
    (tmp_path / "all.txt").write_text("-r base.txt\n-r gone.txt\n-c bounds.txt\ntorch==2.9.1\n")
    said = CliRunner().invoke(cli, ["audit", "-r", str(tmp_path / "all.txt"), "--to", "0.16.9"])
    assert said.stdout.startswith("deepspeed 0.16.8 -> 0.16.9: ")
    for note in ("gone.txt is not here, so that what it pins is not known", "-c bounds.txt (line 3) is not read"):
        assert f"{tmp_path}/all.txt: {note}\n" in said.stderr


def test_a_configuration_of_which_nothing_is_known_is_told(say: Say, tmp_path: Path) -> None:
    (tmp_path / "foo.yaml").write_text("foo: 1\n")
    said = say("--config", str(tmp_path / "foo.yaml"))
    assert (
        f"{tmp_path}/foo.yaml states nothing that is known here: it has no key of DeepSpeed, accelerate" in said.stderr
    )


def test_a_file_that_a_configuration_names_and_that_is_elsewhere_is_noted(say: Say, tmp_path: Path) -> None:
    (tmp_path / "axolotl.yaml").write_text("base_model: m\nadapter: lora\ndeepspeed: deepspeed_configs/zero3.json\n")
    said = say("--config", str(tmp_path / "axolotl.yaml"))
    assert "deepspeed_configs/zero3.json is not here, so that what it states is not known" in said.stderr


def test_two_goals_of_one_package_are_refused(say: Say) -> None:
    with pytest.raises(UsageError, match="--to: two releases of deepspeed; ask for one upgrade at a time"):
        say("--to", "0.19.8", "--to", "deepspeed==0.18.9")


def test_grpo_generates_while_it_trains() -> None:
    words = ["audit", "-r", "-", "--set", "zero_stage=3", "--set", "task=grpo"]
    pins = "deepspeed==0.15.4\ntrl==1.16.0\n"
    said = CliRunner().invoke(cli, words, input=pins, standalone_mode=False, catch_exceptions=False)
    assert "DSR-2026-0090 crashes" in said.stdout


def test_a_misspelt_key_of_deepspeeds_is_told(say: Say, tmp_path: Path) -> None:
    (tmp_path / "typo.json").write_text(json.dumps({"zero_optimisation": {"stage": 3}, "bf16": {"enabled": True}}))
    said = say("--config", "typo.json")
    assert (
        "typo.json: DeepSpeed has no zero_optimisation, and ignores it; did you mean zero_optimization?" in said.stderr
    )
    assert "did you mean" not in say("--config", "ds.json").stderr


def test_a_fault_that_most_such_jobs_have_comes_with_what_decides_and_is_no_pass(say: Say) -> None:
    said = say("--set", "zero_stage=2", pins="deepspeed==0.18.9\n", advisories=[QUARTER])
    assert said.return_value == 4
    assert said.stdout.startswith(
        "none of 1 advisory is known to concern this job; 1 more usually does: "
        "trains wrong with gradient accumulation above 1\n"
    )
    assert (
        "  if, as is usual and was not stated: gradient accumulation above 1 (--set gradient_accumulation_steps=N)\n"
        in said.stdout
    )


def test_settings_beside_pasted_packages_are_facts_that_give_way_to_files(say: Say) -> None:
    pasted = (
        "- `transformers` version: 4.57.6\n"
        "- Accelerate config: \t- distributed_type: DEEPSPEED\n"
        "        - deepspeed_config: {'gradient_accumulation_steps': 8, 'zero_stage': 2}\n"
        "- DeepSpeed version: 0.18.9\n"
    )
    said = say(pins=pasted, advisories=[QUARTER])
    assert said.return_value == 1
    assert "gradient accumulation above 1 (stdin: deepspeed_config.gradient_accumulation_steps)" in said.stdout
    assert say("--config", "ds.json", pins=pasted, advisories=[QUARTER]).return_value == 0


def test_the_command_that_measures_has_the_package_that_the_line_starts(say: Say, tmp_path: Path) -> None:
    pins = "deepspeed==0.16.8\ntorch==2.9.1\naxolotl==0.8.0\n"
    line = "accelerate launch -m axolotl.cli.train ax.yml"
    said = say("--program", line, "--to", "0.19.9", pins=pins, advisories=[QUARTER])
    measured = "--torch 2.9.1 --with axolotl=0.8.0 --baseline 0.16.8"
    assert f"{measured} --program '{line}'\n" in said.stdout
    (tmp_path / "ax.yml").write_text("base_model: meta-llama/Llama-3.1-8B\nadapter: lora\n")
    said = say("--config", "ax.yml", "--to", "0.19.9", pins=pins, advisories=[QUARTER])
    assert f"{measured} --program 'axolotl train ax.yml'\n" in said.stdout


def test_a_package_that_the_file_does_not_pin_is_answered_for_whatever_is_installed(say: Say) -> None:
    said = say("--set", "zero_stage=2", "--set", "gradient_accumulation_steps=4", "--to", "0.18.9",
               pins="torch==2.9.1\ndeepspeed\n", advisories=[QUARTER, CRASH])  # fmt: skip
    assert said.return_value == 1
    assert said.stdout.startswith(
        "deepspeed 0.18.9: no: The gradient is too small with accumulation; go to deepspeed 0.19.6\n"
    )
    assert (
        "deepspeed is not pinned in stdin, so that what the upgrade ends is not known: "
        "`pip freeze | grep -i deepspeed=` in its environment prints the pin\n" in said.stderr
    )


def test_a_yanked_release_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    stated_jobs.note_unlisted({"transformers": "4.57.0"}, ["transformers"])
    assert capsys.readouterr().err == (
        "dsregress: transformers 4.57.0 was yanked by its publisher (Error in the setup causing installation issues); "
        "the next release is 4.57.1\n"
    )
