"""``docs/advisories.md``: what a record says, and the index of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dsregress.advisories.advisory import Advisory, AdvisoryKind, Ruling
from dsregress.advisories.shipped import read_advisories
from dsregress.report.advisory_words import range_text
from dsregress.report.plain_text import markdown
from tests.paths import ROOT
from tests.unit.docs.templates import page_of, rendered

TEMPLATE = ROOT / "docs" / "advisories.md.jinja"
PAGE = page_of(TEMPLATE)

_NOTES = {Ruling.FAULT: "", Ruling.CHANGE: " (no fault)", Ruling.IMPROVEMENT: " (better)"}


class Line(msgspec.Struct, frozen=True):
    """One line of the index, as Markdown."""

    id: str
    title: str
    note: str
    releases: str
    ruling: str


def of_kind() -> Iterator[tuple[str, list[Line]]]:
    """Yield each kind, the gravest first, with its advisories."""
    for kind in AdvisoryKind:
        lines = [_line(one) for one in read_advisories() if one.kind is kind and not one.withdrawn]
        if lines:
            yield kind.value.capitalize(), lines


def _line(one: Advisory) -> Line:
    releases = "; ".join(range_text(each) for each in one.ranges)
    return Line(one.id, markdown(one.title), _NOTES[one.ruling], releases, one.ruling.value)


def written(checked: Mapping[str, str]) -> str:
    """Return the page, with the numbers of what was checked."""
    return rendered(TEMPLATE, {"of_kind": of_kind, "checked": checked})  # type: ignore[dict-item]
