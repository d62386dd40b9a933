"""``bundle``: a folder of results as one file."""

from __future__ import annotations

import os

import click

from dsregress.cli import options
from dsregress.cli.command_json import text_beside, write_command_json
from dsregress.cli.output import note_problems
from dsregress.errors import UsageError
from dsregress.store import publishing
from dsregress.store.bundle_file import SUFFIX
from dsregress.wording.quantities import plural

_NOUNS = {"other": "other file"}


@click.command("bundle")
@click.argument("folder", metavar="FOLDER|BUNDLE", type=click.Path(exists=True))
@click.option(
    "--output",
    metavar="FILE|FOLDER",
    help=f"The bundle to write, or the folder to unpack into. Default: FOLDER{SUFFIX}, or BUNDLE without {SUFFIX}.",
)
@click.option("--unpack", is_flag=True, help="Unpack BUNDLE into a folder, to add results to it.")
@options.json_option
def bundle_command(folder: str, output: str | None, unpack: bool, json_file: str | None) -> None:
    """Pack the results in FOLDER into one compressed file, which every command reads like a folder.

    A bundle is JSON lines with gzip, readable by zcat and jq. Equal folders give equal bytes. An existing file is never
    replaced. Damaged results are named and left out.

    \b
    Examples:
      dsregress bundle results --output 2026-11-26.jsonl.gz
      dsregress report 2026-11-26.jsonl.gz
      dsregress bundle --unpack 2026-11-26.jsonl.gz --output results
    """
    say = text_beside(json_file)
    if unpack:
        target = folder.removesuffix(SUFFIX) if output is None else output
        unpacked = publishing.unpack(folder, target)
        note_problems(unpacked.problems)
        say(f"{target}: {plural(unpacked.written, 'file')} written, {unpacked.kept:,} already there")
        write_command_json(
            json_file, "bundle", folder=target, written=unpacked.written, kept=unpacked.kept, problems=unpacked.problems
        )
        return
    if not os.path.isdir(folder):
        raise UsageError(
            "not a folder", where=folder, hint="name a folder of results; `--unpack` makes one of a bundle"
        )
    file = os.path.normpath(folder) + SUFFIX if output is None else output
    published = publishing.publish(folder, file)
    note_problems(published.problems)
    held = ", ".join(plural(count, _NOUNS.get(kind, kind)) for kind, count in published.lines.items() if count)
    say(f"{file}: {held}; {published.size_bytes / 1024:,.0f} KiB")
    write_command_json(
        json_file,
        "bundle",
        file=file,
        size_bytes=published.size_bytes,
        lines=published.lines,
        problems=published.problems,
    )
