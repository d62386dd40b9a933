"""``docs/watch.md``: the uploads that were replayed, from what `watch` answered and from the dates of public threads."""

from __future__ import annotations

import datetime
import json
import statistics
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from dsregress.advisories.shipped import read_advisories
from dsregress.report.plain_text import markdown, markdown_table
from dsregress.wording.addresses import thread_name
from tests.paths import ROOT
from tests.unit.docs.templates import page_of, rendered

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEMPLATE = ROOT / "docs" / "watch.md.jinja"
PAGE = page_of(TEMPLATE)
ANSWERS = ROOT / "results" / "replay.jsonl"  # one line for each call


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of an upload: the day, minutes until the report, and the thread."""

    release: str
    day: datetime.date
    minutes: float
    advisory: str
    drafts: int
    is_found: bool
    thread: str = ""
    opened: datetime.date | None = None
    how: str = ""

    @property
    def lead(self) -> int | None:
        """Days from the upload to the first thread; None if the problem was not found, or has no thread."""
        return (self.opened - self.day).days if self.is_found and self.opened is not None else None


def answers() -> dict[tuple[str, str], dict[str, Any]]:
    """Return what `watch` said of each new release."""
    calls = map(json.loads, ANSWERS.read_text(encoding="utf-8").splitlines())
    return {(one["package"], one["version"]): one for call in calls for one in call["new"]}


def replayed() -> Iterator[Replayed]:
    """Yield the problems in the order of the uploads."""
    said = answers()
    for upload in tomllib.loads((ROOT / "results" / "replay.toml").read_text(encoding="utf-8"))["upload"]:
        answer = said[upload["package"], upload["version"]]
        known = [name for draft in answer["drafts"] for name in draft["known_since"]]
        for problem in upload["problem"]:
            yield Replayed(
                release=f"{upload['package']} {upload['version']}",
                day=upload["day"],
                minutes=answer["seconds"] / 60,
                advisory=problem["advisory"],
                drafts=len(answer["drafts"]),
                is_found=problem["advisory"] in known,
                thread=problem.get("thread", ""),
                opened=problem.get("opened"),
                how=problem["found"],
            )


def table() -> str:
    """Return the table, a line for each problem."""
    titles = {one.id: one.title for one in read_advisories()}
    columns = ("upload", "problem", "found", "first public thread", "lead")
    rows = [
        (
            f"{one.day} {one.release}, {one.minutes:.0f} minutes, {one.drafts} drafts",
            f"[{one.advisory}](../results/advisories/{one.advisory}.json): {markdown(titles[one.advisory])}",
            "yes" if one.is_found else "no",
            f"{one.opened} [{thread_name(one.thread)}]({one.thread}): {one.how}" if one.thread else one.how,
            "" if one.lead is None else f"{one.lead} days",
        )
        for one in replayed()
    ]
    return "\n".join(markdown_table(columns, rows))


def leads() -> list[int]:
    """Return the leads of the problems that were found and have a thread."""
    return [one.lead for one in replayed() if one.lead is not None]


def written() -> str:
    """Return the page."""
    functions = {
        "table": table,
        "count": lambda: len([*replayed()]),
        "found": lambda: sum(one.is_found for one in replayed()),
        "median": lambda: f"{statistics.median(leads()):g}",
        "longest": lambda: f"{max(one.minutes for one in replayed()):.0f}",
    }
    return rendered(TEMPLATE, functions)
