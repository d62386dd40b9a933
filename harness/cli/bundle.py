"""``bundle``: a folder of results as one file."""

from __future__ import annotations

import os

import click

from harness.cli.output import note_problems, say
from harness.store.bundle import SUFFIX
from harness.store.publishing import publish
from harness.wording.quantities import plural

_NOUNS = {"other": "other file"}


@click.command("bundle")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option("--output", metavar="FILE", help=f"The bundle. Default: FOLDER{SUFFIX}.")
def command(folder: str, output: str | None) -> None:
    """Put the results in FOLDER into one compressed file, which every command reads as a folder.

    A bundle is JSON lines under gzip, for zcat and jq. Equal folders make equal bytes. A file that is there already is
    never replaced; damaged results are named and left out.

    \b
    Examples:
      bundle results --output 2026-11-22.jsonl.gz
      report 2026-11-22.jsonl.gz
    """
    file = os.path.normpath(folder) + SUFFIX if output is None else output
    published = publish(folder, file)
    note_problems(published.problems)
    held = ", ".join(plural(count, _NOUNS.get(kind, kind)) for kind, count in published.lines.items() if count)
    say(f"{file}: {held}; {published.size_bytes / 1024:,.0f} KiB")
