"""Commands and sessions as the documentation writes them: judged by click's own parser, and what they print."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from functools import cache

import click

from dsregress import cli
from tests.paths import ROOT


def sessions() -> set[str]:
    """The functions of the noxfile that are sessions."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    decorated = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list)
    return {node.name for node in decorated if any("nox.session" in ast.unparse(d) for d in node.decorator_list)}


def check(arguments: list[str]) -> None:
    """Raises AssertionError for a command or an option that does not exist, or a value that is missing."""
    name, *rest = arguments
    if name.startswith("-"):
        return
    with click.Context(cli.cli, info_name="dsregress") as context:
        command = cli.cli.get_command(context, name)
        assert command is not None, f"no such command: {name}"
        try:
            command.make_parser(click.Context(command, info_name=name)).parse_args(rest)
        except click.UsageError as error:
            raise AssertionError(f"{name} {shlex.join(rest)}: {error.format_message()}") from None


@cache
def printed(command: str, columns: int) -> str:
    """What a command of the harness writes to stdout in a terminal of this width."""
    done = subprocess.run(
        [sys.executable, "-m", "dsregress", *shlex.split(command)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(columns)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
