"""Every command in the documentation is one that the command line takes. Nothing is run: click's own parser judges."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dsregress import cli
from tests.paths import ROOT
from tests.unit.docs import markdown
from tests.unit.docs.commands import check, printed, sessions
from tests.unit.docs.markdown import PAGES

_OURS = re.compile(r"dsregress (?P<rest>[^)`|]*)")
_NOX = re.compile(r"nox -s (?P<rest>[^)`|]*)")


def written(page: Path) -> Iterator[str]:
    yield from markdown.code_lines(page)
    yield from markdown.code_spans(page)


def words(text: str) -> list[str]:
    """As a shell would split it: up to a comment (behind # or some space), another command or a placeholder."""
    found = shlex.split(re.split(r" {2,}", text)[0], comments=True)
    for stop in ("&&", "|", ">", ">>", "OPTIONS", "..."):
        if stop in found:
            found = found[: found.index(stop)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=markdown.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    for text in written(page):
        for found in _OURS.finditer(text):
            if arguments := words(found["rest"]):
                check(arguments)


@pytest.mark.parametrize("page", PAGES, ids=markdown.name)
def test_sessions_exist_and_pass_on_options_that_exist(page: Path) -> None:
    known = sessions()
    for text in written(page):
        for found in _NOX.finditer(text.replace("(deepspeed='0.16.4')", "").replace('"stack"', "stack")):
            before, _, after = " ".join(shlex.quote(word) for word in words(found["rest"])).partition(" -- ")
            names = shlex.split(before.removesuffix(" --"))
            assert set(names) <= known, f"no such session: {set(names) - known}"
            if after and names[0] in cli.COMMANDS:
                check([names[0], *shlex.split(after)])


@pytest.mark.slow
def test_what_is_explained_and_shown_of_published_results_is_there() -> None:
    found = {
        shlex.join(arguments)
        for page in PAGES
        for text in written(page)
        for one in _OURS.finditer(text)
        if (arguments := words(one["rest"])) and arguments[0] in ("explain", "show") and "results/2026" in one["rest"]
    }
    assert found
    for command in found:
        assert printed(command, 120)


def examples(command: click.Command) -> list[str]:
    """The lines below "Examples:" in a command's help."""
    block = (command.help or "").partition("Examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.replace("\\\n", "").strip().splitlines()]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_examples_in_help_are_command_lines_as_they_are_typed(name: str) -> None:
    command = cli.cli.get_command(click.Context(cli.cli), name)
    assert command is not None
    for line in examples(command):
        assert "dsregress " in line or line.startswith("git "), line
        for found in _OURS.finditer(line):
            check(words(found["rest"]))


def test_every_command_has_a_heading_of_its_own() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    headed = {name for heading in re.findall(r"^## (.*)$", text, re.MULTILINE) for name in heading.split(", ")}
    assert set(cli.COMMANDS) <= headed


def test_every_option_of_regress_is_explained_on_the_page_of_commands() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    command = cli.cli.get_command(click.Context(cli.cli), "regress")
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert {option for option in options if option not in text} == set()


def test_exit_codes_are_those_of_the_code() -> None:
    from dsregress import errors
    from dsregress.cli import signals

    codes = {str(getattr(errors, name)) for name in dir(errors) if name.startswith("EXIT_")}
    rows = {row["code"] for row in markdown.table(ROOT / "docs" / "commands.md", "code")}
    assert rows == codes | {", ".join(str(128 + number) for number in sorted(signals.ENDING))}
