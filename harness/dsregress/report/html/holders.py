"""Holders of the memory that a finding is about, if both cells were explained: timelines, and places in the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from dsregress.advice import attribution
from dsregress.compare import Group
from dsregress.compare.metrics import BY_NAME
from dsregress.model import Finding, Result
from dsregress.probe.border.wire import Explanation, Stretch
from dsregress.report.context import ReportContext
from dsregress.wording.addresses import place_url
from dsregress.wording.quantities import short_quantity

#: Finds the stored explanation of a result; None if it was not explained.
ExplanationOf = Callable[[Result], Explanation | None]

#: Places that a page lists.
_MOST_PLACES = 6


class SiteRow(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the code, in words."""

    more: str  #: signed, exact: ``+347,136 B``
    size: str  #: the same, short, without its sign
    category: str
    site: str
    modules: str
    via: tuple[str, ...]
    url: str  #: of the released file; empty if it is unknown


class Holders(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, explained by both cells' explanations."""

    stack: str  #: short names
    baseline: str
    workload: str
    timeline: dict[str, list[Stretch]]  #: by stack, the baseline first; empty unless both have one
    when: str  #: the moment of the finding: ``held after backward``
    total: str  #: the difference that the places add up to; empty if the finding's metric is not explained
    places: tuple[SiteRow, ...]
    rest: str  #: the sum of the other places; empty if there are none
    lines: tuple[str, ...]  #: the evidence that the places repeat


def nothing_explained(result: Result) -> Explanation | None:
    """Return None, for a site without explanations."""
    return None


def holders_of(context: ReportContext, groups: Sequence[Group], explained: ExplanationOf) -> Holders | None:
    """Return the holders for the first of these findings (the worst first) whose cell was explained; None if the finding is
    not about memory, or the cells were not explained."""
    if BY_NAME[groups[0].headline.metric].fails != "memory":
        return None
    theirs = _of(context, context.comparison.baseline, groups[0].headline, explained)
    if theirs is None:
        return None
    for group in groups:
        found = group.headline
        if found.stack != context.comparison.baseline and (mine := _of(context, found.stack, found, explained)):
            return _holders_beside(context, found, mine, theirs)
    return None


def _of(context: ReportContext, stack: str, found: Finding, explained: ExplanationOf) -> Explanation | None:
    cell = context.comparison.cells.of(stack, found.workload)
    explanation = None if cell is None or not cell.recorded else explained(cell.result)
    # An explanation that failed is stored too, and has neither.
    return explanation if explanation is not None and (explanation.moments or explanation.timeline) else None


def _holders_beside(context: ReportContext, found: Finding, mine: Explanation, theirs: Explanation) -> Holders:
    name, baseline = context.name_of(found.stack), context.name_of(context.comparison.baseline)
    versions = context.stacks[found.stack].versions
    drawn = {baseline: theirs.timeline, name: mine.timeline}
    key = attribution.moment_of(found.metric, found.phase)
    moment, other = mine.moments.get(key), theirs.moments.get(key)
    changed: list[attribution.SiteDifference] = []
    total = ""
    if moment is not None and other is not None:
        changed = [site for site in attribution.difference(moment, other) if site.more_bytes]
        sizes = [short_quantity(held.nbytes, "bytes") for held in (moment, other)]
        total = f"{sizes[0]} instead of {sizes[1]} ({moment.nbytes - other.nbytes:+,} B)"
    rest = changed[_MOST_PLACES:]
    lines = attribution.evidence(mine, theirs, key)
    return Holders(
        stack=name,
        baseline=baseline,
        workload=found.workload,
        timeline=drawn if all(map(_is_drawable, drawn.values())) else {},
        when=attribution.when(key) if total else "",
        total=total,
        places=tuple(_site_row(site, versions) for site in changed[:_MOST_PLACES]),
        rest=f"{sum(site.more_bytes for site in rest):+,} B at {len(rest)} other places" if rest else "",
        lines=(*lines, *(f"in {name}, {line}" for line in lines)),
    )


def _is_drawable(stretches: Sequence[Stretch]) -> bool:
    """Return True if a timeline can be drawn. A damaged file of explanations counts as missing."""
    return bool(stretches) and all(
        stretch.points and all(len(point) == 2 for point in stretch.points) for stretch in stretches
    )


def _site_row(site: attribution.SiteDifference, versions: Mapping[str, str]) -> SiteRow:
    return SiteRow(
        more=f"{site.more_bytes:+,} B",
        size=short_quantity(abs(site.more_bytes), "bytes"),
        category=site.category,
        site=site.site,
        modules=", ".join(attribution.shorter(site.modules)),
        via=site.via,
        url=place_url(site.site, versions),
    )
