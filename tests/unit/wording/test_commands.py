"""Every command that is shown to a user is one that the command line understands."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path

import click
import pytest

from dsregress.cli import cli
from dsregress.compare import result_pairs
from dsregress.model import Finding, Stack
from dsregress.wording import commands

PACKAGE = Path(commands.__file__).parents[1]

HOSTILE = "a b'c\"$(rm)"


def stack(version: str, *, named: str = "", torch: str = "2.5.1") -> Stack:
    label = f"{named}: {version}" if named else version
    return Stack(python="3.11", versions={"torch": torch, "deepspeed": version, "liger": "1.0"}, label=label)


def finding(workload: str = "fit/base/sim") -> Finding:
    return result_pairs.finding(
        *("", workload),
        metric="host_calls",
        phase="step",
        kind="regression",
        value=2,
        baseline_value=1,
        ratio=2,
        unit="calls",
        significant=True,
        relevant=True,
        sentence="",
    )


def parsed(line: str) -> tuple[str, click.Context]:
    """The command's name, and its options as click reads them. Raises UsageError for one that does not exist."""
    program, name, *words = shlex.split(line)
    assert program == "dsregress"
    assert isinstance(cli, click.Group)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, line
    return name, command.make_context(name, words)


OLD, NEW = stack("0.15.0"), stack("0.16.4")
NAMED = (stack("0.15.0", named="old pins"), stack("0.16.4", named="old pins"))

SHOWN = {
    "AUDIT": commands.AUDIT,
    "AUDIT_FILES": commands.AUDIT_FILES,
    "REGRESS": commands.REGRESS,
    "REGRESS_SOURCE": commands.REGRESS_SOURCE,
    "INIT_PROGRAM": commands.INIT_PROGRAM,
    "SCENARIOS": commands.SCENARIOS,
    "STACKS": commands.STACKS,
    "SHOW": commands.SHOW,
    "show_named": commands.show_named("DSR-2026-0020"),
    "REMOVE_IMAGES": commands.REMOVE_IMAGES,
    "REPORT_AS_SITE": commands.REPORT_AS_SITE,
    "regress: nothing given": commands.regress(),
    "regress": commands.regress(
        releases={"deepspeed": ["0.16.4", "0.16.5"]},
        baseline="0.15.0",
        scenario="fit",
        variants=["base", "zero_stage=2"],
        device="sim",
    ),
    "regress: another package": commands.regress(releases={"liger": ["1.0", "1.1"]}, scenario="fit"),
    "measure_again": commands.measure_again(NEW, OLD, finding()),
    "measure_again: the baseline": commands.measure_again(OLD, OLD, finding()),
    "measure_again: named": commands.measure_again(NAMED[1], NAMED[0], finding()),
    "measure_again: two packages": commands.measure_again(NEW, stack("0.15.0", torch="2.4.0"), finding()),
    "measure_change": commands.measure_change(NEW, "deepspeed", finding(), against="1a2b3c4d5e6f", folder="."),
    "explain": commands.explain("0.16.4/fit/base/sim", "0.15.0"),
    "explain: drawn": commands.explain("0.16.4/fit/base/sim", "0.15.0/fit/base/sim", svg="step.svg"),
    "compare": commands.compare("0.15.0", "0.16.4"),
    "audit_upgrade": commands.audit_upgrade("deepspeed", "0.19.8"),
    "audit_upgrade: another package": commands.audit_upgrade("torch", "2.9.1"),
    "upgrade_together": commands.upgrade_together("old.txt", ["new.txt", "torch==2.9.1"], "python train.py"),
    "upgrade_together: the configured program": commands.upgrade_together("uv.lock", ["latest"], ""),
    "bisect": commands.bisect("deepspeed", OLD, NEW, finding(), "step.host_calls"),
    "bisect: another package": commands.bisect("torch", *NAMED, finding(), "outcome", fixed=True),
    "remedies": commands.remedies(NAMED[1], finding(), card="A800-80G"),
    "remedies_of": commands.remedies_of("fit", card="A800-80G"),
    "reproduce": commands.reproduce("0.16.4/fit/base/cpu", "outcome:TypeError: it is", "0.15.0"),
    "regress_program": commands.regress_program(),
    "regress_program: a release": commands.regress_program(package="torch", releases=["2.9.1"], card="A800-80G"),
    "recommend": commands.recommend(finding(), card="A800-80G"),
    "recommend: any card": commands.recommend(finding()),
}


@pytest.mark.parametrize("line", SHOWN.values(), ids=SHOWN.keys())
def test_the_command_line_understands_it(line: str) -> None:
    parsed(line)


def test_all_of_them_are_parsed_here() -> None:
    shown = {name for name, value in vars(commands).items() if isinstance(value, str) and name.isupper()}
    shown |= {
        name
        for name, value in vars(commands).items()
        if inspect.isfunction(value) and value.__module__ == commands.__name__ and not name.startswith("_")
    }
    assert shown == {name.partition(":")[0] for name in SHOWN}


def test_an_odd_name_stays_one_word() -> None:
    odd = finding(f"{HOSTILE}/zero_stage=2,{HOSTILE}/sim")
    _, context = parsed(commands.measure_again(stack("0.16.4", named=HOSTILE), None, odd))
    assert context.params["scenarios"] == (HOSTILE,)
    assert context.params["variants"] == (f"zero_stage=2,{HOSTILE}",)
    assert context.params["stack"] == HOSTILE


def test_a_bisection_takes_the_pins_of_the_named_stack() -> None:
    _, context = parsed(commands.bisect("deepspeed", *NAMED, finding(), "step.host_calls"))
    assert context.params["stack"] == "old pins"
    assert (context.params["good"], context.params["bad"]) == ("0.15.0", "0.16.4")


def test_a_package_without_an_option_is_given_by_with() -> None:
    _, context = parsed(commands.regress(releases={"liger": ["1.0", "1.1"]}))
    assert context.params["others"] == ("liger=1.0,1.1",)
    _, context = parsed(commands.regress(releases={"deepspeed": ["0.16.4"], "trl": [""]}))
    assert context.params["others"] == ("trl",)


def test_the_command_that_shows_it_again_names_the_stack_that_the_pins_are_from() -> None:
    old, new = stack("0.15.0", named="old-pins"), stack("0.16.3", named="old-pins")
    assert commands.measure_again(new, old, finding("fit/base/cpu")) == (
        "dsregress regress --stack old-pins --deepspeed 0.15.0,0.16.3 --with liger=1.0 --baseline 0.15.0 "
        "--scenario fit --variant base --device cpu --fresh"
    )
    other = stack("0.15.0", torch="2.13.0")
    assert commands.measure_again(new, other, finding("fit/base/cpu")) == (
        "dsregress regress --stack old-pins --deepspeed 0.16.3 --with liger=1.0 "
        "--scenario fit --variant base --device cpu --fresh"
    )


def test_what_a_stack_has_besides_the_usual_packages_stays_in_every_command() -> None:
    for line in (
        commands.measure_again(NEW, OLD, finding()),
        commands.bisect("deepspeed", OLD, NEW, finding(), "outcome"),
        commands.remedies(NEW, finding()),
        commands.regress(releases={"deepspeed": ["0.16.4"], "liger": ["1.0"]}),
    ):
        _, context = parsed(line)
        assert context.params["others"] == ("liger=1.0",)
    without = Stack(python="3.11", versions={"torch": "2.5.1", "deepspeed": "0.15.0"}, label="0.15.0")
    with_liger = Stack(python="3.11", versions={**without.versions, "liger": "1.0"})
    _, context = parsed(commands.measure_again(with_liger, without, finding()))
    assert context.params["others"] == ("liger=1.0",)


def test_a_usual_package_that_the_command_fixed_stays_in_every_command() -> None:
    old, new = (
        Stack(
            python="3.11",
            versions={"torch": "2.5.1", "transformers": "4.46.3", "deepspeed": version},
            label=f"{version} + transformers 4.46.3",
        )
        for version in ("0.15.0", "0.16.4")
    )
    for line in (
        commands.measure_again(new, old, finding()),
        commands.bisect("deepspeed", old, new, finding(), "outcome"),
        commands.remedies(new, finding()),
    ):
        assert "--transformers 4.46.3" in line
        assert "--torch" not in line
        parsed(line)


def test_an_interpreter_that_existed_is_named_without_its_path() -> None:
    mine = Stack(python="3.11+1a2b3c4d", versions={"torch": "2.5.1", "deepspeed": "0.15.0"}, label="mine")
    other = Stack(python="3.11+5e6f7a8b", versions=mine.versions, label="other")
    _, context = parsed(commands.measure_again(other, mine, finding()))
    assert context.params["pythons"] == ("PATH-OF-mine", "PATH-OF-other")
    _, context = parsed(commands.measure_again(NEW, mine, finding()))
    assert context.params["pythons"] == ("PATH-OF-mine",)
    assert (context.params["deepspeed"], context.params["torch"]) == ("0.16.4", "2.5.1")
    assert context.params["baseline"] is None
    _, context = parsed(commands.remedies(mine, finding()))
    assert (context.params["pythons"], context.params["deepspeed"]) == (("PATH-OF-mine",), None)


def test_no_other_module_spells_a_command() -> None:
    spelled = re.compile(rf"\bdsregress ({'|'.join(cli.list_commands(click.Context(cli)))})\b")
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        prose = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }  # docstrings, and help made of them
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                assert not spelled.search(node.value), f"{file.relative_to(PACKAGE)}:{node.lineno}"
