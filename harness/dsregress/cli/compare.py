"""``compare A B``: the stored results of two stacks."""

from __future__ import annotations

import click

from dsregress.cli import options
from dsregress.cli.comparison_output import write_reports
from dsregress.cli.output import note_problems
from dsregress.cli.stored_results import stack_ids
from dsregress.errors import UsageError
from dsregress.run import pipeline, targets
from dsregress.store import Store


@click.command("compare")
@click.argument("a")
@click.argument("b", nargs=-1, required=True)
@options.results_option
@options.fail_on_option(options.FAIL_ON_HELP)
@options.report_options
def compare_command(
    a: str, b: tuple[str, ...], results: str | None, fail_on: tuple[str, ...] | None, files: options.ReportFiles
) -> int:
    """Compare the stored results of stack A, the baseline, with those of B and others.

    A and B are versions of the package under test, including packages added to the stack ("0.16.4 + trl 0.24.0"), or stack
    ids as `stacks` prints them. Nothing is measured.

    \b
    Examples:
      dsregress compare 0.15.0 0.16.4
      dsregress compare 0.15.0 0.16.4 0.16.8 --markdown -
    """
    settings = options.load_settings(results=results, fail_on=fail_on)
    store = Store(settings.results)
    package = targets.varied_package(settings)
    known = store.stack_ids()
    baseline, *others = stack_ids([a, *b], package, known)
    if baseline in others:
        raise UsageError(f"{a} is on both sides", where="compare", hint="name two different stacks")
    problems: list[str] = []
    stacks = list(dict.fromkeys([baseline, *others]))
    comparison = pipeline.compare_stored([store], baseline, settings, problems.append, stacks)
    note_problems(problems)
    return write_reports(comparison, settings, files)
