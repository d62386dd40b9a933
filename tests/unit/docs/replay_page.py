"""``docs/watch.md``: the uploads that were replayed, from what `watch` answered and from the dates of public threads."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from dsregress.advisories.shipped import read_advisories
from dsregress.report.plain_text import markdown_table
from dsregress.wording.addresses import thread_name
from dsregress.wording.quantities import listing, plural
from tests.paths import ROOT
from tests.unit.docs.templates import page_of, rendered

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEMPLATE = ROOT / "docs" / "watch.md.jinja"
PAGE = page_of(TEMPLATE)
ANSWERS = ROOT / "results" / "replay.jsonl"  # one line for each call


_FOUND = {True: "yes", False: "no", None: "not run"}


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of an upload, and the thread about it."""

    release: str
    day: datetime.date
    run: str  #: minutes until the report, and drafts; why it was not run
    advisory: str
    is_found: bool | None  #: None: not run
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
        answer = said.get((upload["package"], upload["version"]))
        drafts = answer["drafts"] if answer else []
        known = [name for draft in drafts for name in (draft["id"], *draft["known_since"])]
        for problem in upload["problem"]:
            yield Replayed(
                release=f"{upload['package']} {upload['version']}",
                day=upload["day"],
                run=f"{answer['seconds'] / 60:.0f} minutes, {plural(len(drafts), 'draft')}"
                if answer
                else upload["not_run"],
                advisory=problem["advisory"],
                is_found=problem.get("draft", problem["advisory"]) in known if answer else None,
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
            f"{one.day} {one.release}: {one.run}",
            f"{one.advisory}: {titles[one.advisory]}",
            _FOUND[one.is_found],
            f"{one.opened} {thread_name(one.thread)}, {one.how}" if one.thread else one.how,
            "" if one.lead is None else f"{one.lead} days",
        )
        for one in replayed()
    ]
    return "\n".join(markdown_table(columns, rows))


def written() -> str:
    """Return the page."""
    problems = [*replayed()]
    run = [one for one in problems if one.is_found is not None]
    leads = [one.lead for one in run if one.lead is not None]
    functions = {
        "table": table,
        "count": lambda: len(problems),
        "run": lambda: len(run),
        "found": lambda: sum(one.is_found is True for one in run),
        "leads": lambda: listing([f"{lead}" for lead in leads]),
    }
    return rendered(TEMPLATE, functions)
