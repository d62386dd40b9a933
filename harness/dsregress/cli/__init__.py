"""The command line. One file per command; the group and the one place that catches errors are here."""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from dsregress.cli import debug_log, signals, standard_streams
from dsregress.cli.error_json import write_error_json
from dsregress.cli.lines import print_note
from dsregress.errors import EXIT_HARNESS, EXIT_OK, EXIT_REGRESSION, EXIT_USAGE, HarnessError, UsageError
from dsregress.probe.border import machine, processes

#: Command -> its one-line help. Its module, which has the function ``NAME_command``, is imported when the command
#: is called, so that listing the commands is instant.
COMMANDS = msgspec.toml.decode(Path(__file__).with_name("commands.toml").read_bytes(), type=dict[str, str])

#: The least exit code on which `git bisect run` stops.
EXIT_ENDS_GIT_BISECT = 128


@dataclass
class _Invocation:
    """One call of the command line."""

    debug: bool = False  #: show tracebacks


def _show_tracebacks(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    ctx.ensure_object(_Invocation).debug |= value


def _begin_debug_log(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        debug_log.start_debug_log()
        ctx.call_on_close(debug_log.stop_debug_log)


#: Options of the group that each command takes too: people add them to the end of a command that failed.
_LATE = (
    click.Option(["--debug"], is_flag=True, is_eager=True, expose_value=False, callback=_show_tracebacks, hidden=True),
    click.Option(
        ["-v", "--verbose"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_begin_debug_log,
        hidden=True,
    ),
)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        word = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"dsregress.cli.{word}"), f"{word}_command")
        command.params += [option for option in _LATE if option not in command.params]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = [] if args[0] in COMMANDS else difflib.get_close_matches(args[0], COMMANDS, n=1)
        if near:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dsregress", message="%(package)s %(version)s")
@click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_tracebacks,
    help="Show a traceback when something goes wrong. May also follow the command.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_begin_debug_log,
    help="Log each step to stderr: locks, environments, servers, cells, files. May also follow the command.",
)
def cli() -> None:
    """Find out whether a release of DeepSpeed, torch or transformers is worse than another for your kind of training.

    \b
    Examples:
      dsregress regress                                  the configured releases and scenarios
      dsregress regress --deepspeed '0.16.*'             a series of releases against the baseline
      dsregress regress --scenario 'qwen*' --dry-run     what would run, and how long it takes
      dsregress regress --program 'torchrun train.py' --ranks 8    your own script, unmodified
      dsregress compare 0.15.0 0.16.4                    compare stored results, run nothing
      dsregress fit llama3_70b_zero3 --gpu A800-80G --ranks 16,32  does it fit?

    \b
    Exit codes: 0 nothing is worse, 1 a regression, 2 wrong usage or configuration, 3 the harness or an environment
    failed, 4 nothing was measured.
    """


def run_command_line(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code."""
    closed = standard_streams.open_standard_descriptors()
    signals.catch()
    processes.hide()
    words = list(sys.argv[1:] if arguments is None else arguments)
    with standard_streams.guarded(closed) as output:
        try:
            code = _exit_code_of_call(words)
            signals.ignore()
        except signals.Interrupted as late:  # while the command's end was already being said
            code = _interrupted(late)
            signals.ignore()
        standard_streams.flush()
        if output.failure is not None and code in (EXIT_OK, EXIT_REGRESSION):  # no verdict without its report
            why = output.failure.strerror
            print_note(
                f"error: stdout: cannot be written: {why}; what was measured is stored, `report` prints it again"
            )
            code = EXIT_HARNESS
    sys.exit(_as_git_reads_it(code) if _command_of(words) == "bisect-step" else code)


def _command_of(words: Sequence[str]) -> str:
    """Return the first word that is no option: none of the options before the command takes a value."""
    return next((word for word in words if not word.startswith("-")), "")


def _exit_code_of_call(words: list[str]) -> int:
    """Run a command; an error that it raises becomes a line on stderr and an exit code."""
    invocation = _Invocation(debug=os.environ.get("DSREGRESS_DEBUG", "") not in ("", "0"))
    try:
        _refuse_empty(words)
        return _invoke_command(words, invocation)
    except KeyboardInterrupt as error:
        return _interrupted(error)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx is not None else "", err=True)
        return EXIT_USAGE
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "dsregress"
        said = " ".join(error.format_message().split()).removesuffix(".")
        hint = "" if "did you mean" in said.lower() else f"; `{path} --help` says what it takes"
        print_note(f"error: {said}{hint}")
        write_error_json(words, error.format_message(), EXIT_USAGE)
        return EXIT_USAGE
    except HarnessError as error:
        if invocation.debug:
            traceback.print_exc()
        print_note(f"error: {error}")
        write_error_json(words, error, error.exit_code)
        return error.exit_code
    except BaseException as error:  # SystemExit too: nothing of ours raises it, and its code is not a verdict
        if invocation.debug:
            traceback.print_exc()
        if fault := machine.of_error(error):
            again = f"{machine.REMEDIES[fault]}, then run the same command again"
            print_note(f"error: {fault}: {error}; {again}")
            write_error_json(words, HarnessError(f"{fault}: {error}", hint=again), EXIT_HARNESS)
            return EXIT_HARNESS
        what = f"a fault of the harness itself: {type(error).__name__}: {error}"
        print_note(f"error: {what}; --debug shows where")
        write_error_json(words, HarnessError(what, hint="--debug shows where"), EXIT_HARNESS)
        return EXIT_HARNESS


def _interrupted(error: KeyboardInterrupt) -> int:
    number = error.number if isinstance(error, signals.Interrupted) else signal.SIGINT
    if number == signal.SIGINT:
        click.echo(err=True)  # after the "^C" that a terminal shows
    print_note("interrupted; finished measurements are stored: run the same command to continue")
    return 128 + number  # as a shell reports a process that a signal ended


def _invoke_command(words: list[str], invocation: _Invocation) -> int:
    """Run a command. Not by click's own ``main``, which reads every EOFError as Ctrl-C, and a broken pipe to any process as
    a regression's exit code."""
    try:
        with cli.make_context("dsregress", words, obj=invocation) as context:
            code: int | None = cli.invoke(context)
            return code or EXIT_OK
    except click.exceptions.Exit as error:  # --help, --version
        return error.exit_code


def _refuse_empty(words: Sequence[str]) -> None:
    """Raise UsageError for an empty value: it comes from a variable that is not set, and must not mean "as configured"."""
    for before, word in zip(["", *words], words, strict=False):
        option, equals, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        if equals and not value:
            where = option if option.startswith("-") else ""
            raise UsageError("empty", where=where, hint="give it a value or omit it; perhaps a shell variable is unset")


def _as_git_reads_it(code: int | None) -> int:
    """Return the exit code for `git bisect run`, which takes every code from 1 to 127 but 125 for a bad commit, and ends the
    bisection from 128 on. A failed call must not pass for a bad commit. ``bisect-step`` itself returns 0, 1 or 125."""
    if not code or code in (EXIT_REGRESSION, 125) or code >= EXIT_ENDS_GIT_BISECT:
        return code or EXIT_OK
    return EXIT_ENDS_GIT_BISECT
