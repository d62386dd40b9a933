"""A page for each advisory, whose address never changes: ``advisory/DSR-2026-0007.html``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from dsregress.advisories.advisory import Advisory, AdvisoryKind
from dsregress.advisories.matching import condition_text
from dsregress.advisories.shipped import read_advisories
from dsregress.report import urls
from dsregress.report.advisory_words import releases_of_advisory, remedy_request, upstream_links
from dsregress.report.html.page import Page
from dsregress.wording import commands


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
    audit: str  #: the command that puts a job to all of them


class ListedAdvisory(msgspec.Struct, frozen=True, kw_only=True):
    """An advisory in the list, with all that a reader may look for."""

    id: str
    page: str
    heading: str
    releases: str
    kind: str
    needs: str
    links: tuple[str, ...]  #: ``#7665`` and what else their addresses end in


class AdvisoriesPage(Page, frozen=True, kw_only=True):
    """The list of all advisories."""

    template: ClassVar[str] = "advisories.html"
    advisories: tuple[ListedAdvisory, ...]
    kinds_found: tuple[str, ...]


def advisory_pages() -> Iterator[tuple[str, Page]]:
    """Yield ``(path, page)`` of the list and of each advisory."""
    advisories = read_advisories()
    listed = tuple(map(_listed, advisories))
    kinds = tuple(dict.fromkeys(one.kind for one in listed))
    yield urls.ADVISORIES, AdvisoriesPage(title="Advisories", advisories=listed, kinds_found=kinds)
    for one in advisories:
        yield urls.advisory_page(one.id), advisory_page(one)


#: Kinds that many know by another word.
_ALSO_CALLED = {AdvisoryKind.OUT_OF_MEMORY: "out of memory, OOM"}


def _listed(one: Advisory) -> ListedAdvisory:
    return ListedAdvisory(
        id=one.id,
        page=urls.advisory_page(one.id),
        heading=one.title,
        releases=releases_of_advisory(one),
        kind=_ALSO_CALLED.get(one.kind, one.kind.value),
        needs=", ".join(map(condition_text, one.conditions)).replace("ZeRO stage ", "ZeRO-"),
        links=tuple(dict.fromkeys(f"#{url.rpartition('/')[2]}" for _, url in upstream_links(one))),
    )


def advisory_page(one: Advisory) -> AdvisoryPage:
    """Return the page of an advisory."""
    facts = (("Releases", releases_of_advisory(one)), ("You see", one.sees), ("Size", one.size))
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
        links=tuple(upstream_links(one)),
        audit=commands.AUDIT_FILES,
        dates=f"published {one.published}, changed {one.modified}{withdrawn}",
    )
