"""A page for each advisory, whose address never changes: ``advisory/DSR-2026-0007.html``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.matching import condition_text
from dsregress.advisories.shipped import read_advisories
from dsregress.report import urls
from dsregress.report.advisory_words import releases_of_advisory, remedy_request
from dsregress.report.html.page import Page


class AdvisoryPage(Page, frozen=True, kw_only=True):
    """All that is known of one problem."""

    template: ClassVar[str] = "advisory.html"
    id: str
    heading: str
    kind: str
    ruling: str
    facts: tuple[tuple[str, str], ...]  #: label and text
    detail: str
    conditions: tuple[str, ...]
    remedies: tuple[str, ...]
    runs: tuple[tuple[str, str], ...]  #: releases, and the line that the script prints
    links: tuple[tuple[str, str], ...]  #: label and address
    dates: str


class AdvisoriesPage(Page, frozen=True, kw_only=True):
    """The list of all advisories."""

    template: ClassVar[str] = "advisories.html"
    advisories: tuple[tuple[str, str, str, str], ...]  #: id, page, title, releases


def advisory_pages() -> Iterator[tuple[str, Page]]:
    """Yield ``(path, page)`` of the list and of each advisory."""
    advisories = read_advisories()
    listed = ((one.id, urls.advisory_page(one.id), one.title, releases_of_advisory(one)) for one in advisories)
    yield urls.ADVISORIES, AdvisoriesPage(title="Advisories", advisories=tuple(listed))
    for one in advisories:
        yield urls.advisory_page(one.id), advisory_page(one)


def advisory_page(one: Advisory) -> AdvisoryPage:
    """Return the page of an advisory."""
    facts = (("Releases", releases_of_advisory(one)), ("You see", one.sees), ("Size", one.size))
    references = one.references
    labelled = (
        ("reported", references.reported),
        ("introduced by", references.introduced),
        ("fixed by", references.fixed),
        ("related", references.related),
    )
    withdrawn = f"; withdrawn {one.withdrawn}" if one.withdrawn else ""
    return AdvisoryPage(
        title=f"{one.id}: {one.title}",
        id=one.id,
        heading=one.title,
        kind=one.kind.value,
        ruling=one.ruling.value,
        facts=tuple((label, text) for label, text in facts if text),
        detail=one.detail,
        conditions=tuple(condition_text(each) for each in one.conditions),
        remedies=tuple(remedy_request(each) for each in one.remedies),
        runs=tuple((", ".join(run.releases), run.line) for run in one.evidence.runs),
        links=tuple((label, url) for label, found in labelled for url in found),
        dates=f"published {one.published}, changed {one.modified}{withdrawn}",
    )
