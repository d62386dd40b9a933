"""``report``: the report of stored results."""

from __future__ import annotations

from collections.abc import Sequence

import click

from dsregress.cli import options
from dsregress.cli.comparison_output import write_reports
from dsregress.cli.output import note_problems
from dsregress.cli.stored_results import baseline_stack, most_common
from dsregress.errors import NothingMeasured, ResultsError
from dsregress.run import pipeline, targets
from dsregress.store import Store
from dsregress.wording import commands


@click.command("report")
@click.argument("folders", nargs=-1, type=click.Path(exists=True))
@click.option(
    "--baseline", metavar="VERSION|NAME==VERSION|STACK", help="The version or stack to compare the others with."
)
@options.fail_on_option(options.FAIL_ON_HELP)
@options.report_options
def report_command(
    folders: tuple[str, ...], baseline: str | None, fail_on: tuple[str, ...] | None, files: options.ReportFiles
) -> int:
    """Report stored results. Nothing is measured.

    FOLDERS are folders of results, or bundles (default: the configured folder). Several are merged, so the jobs of a CI
    matrix become one report.

    \b
    Examples:
      dsregress report --markdown report.md
      dsregress report artifacts/0.15.0 artifacts/0.16.4 --baseline 0.15.0 --json -
      dsregress report results/2026-11-21.jsonl.gz --html public --export junit=junit.xml
    """
    settings = options.load_settings(fail_on=fail_on)
    problems: list[str] = []
    sources = [Store(folder) for folder in folders or (settings.results,)]
    stores = _readable(sources, problems)
    known = sorted({name for store in stores for name in store.stack_ids()})
    if not known:
        note_problems(problems)
        folders_read = ", ".join(store.folder for store in stores)
        raise NothingMeasured("no results", where=folders_read, hint=f"`{commands.regress()}` measures some")
    package = targets.varied_package(settings)
    chosen = baseline_stack(baseline, settings.baseline, package, known, like=most_common(known, package))
    comparison = pipeline.compare_stored(
        stores, chosen, settings, problems.append, unread=[s.folder for s in sources if s not in stores]
    )
    note_problems(problems)
    stored = [store.folder for store in stores]
    return write_reports(comparison, settings, files, folders=stored)


def _readable(stores: Sequence[Store], problems: list[str]) -> list[Store]:
    """Return the stores that can be read. With several, an unreadable one is a problem; a single one raises ResultsError."""
    found = []
    for store in stores:
        try:
            store.damage()
        except ResultsError as error:
            if len(stores) == 1:
                raise
            problems.append(str(error))
        else:
            found.append(store)
    return found
