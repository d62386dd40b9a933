"""One advisory as a whole, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.matching import condition_text
from dsregress.report.advisory_words import releases_of_advisory, remedy_request, upstream_links
from dsregress.wording import commands
from dsregress.wording.quantities import listing


def advisory_text(one: Advisory) -> str:
    """Return all that is known of one problem, without a newline at its end."""
    return "\n".join([f"{one.id} {one.kind.value} ({one.ruling.value}): {one.title}", *_lines(one)])


def _lines(one: Advisory) -> Iterator[str]:
    if one.detail:
        yield f"  {one.detail}"
    yield f"  releases: {releases_of_advisory(one)}, as far as they were run"
    needed = "; ".join(map(condition_text, one.conditions))
    may = " (a job with all of them may be free of it)" if one.in_some_jobs and needed else ""
    yield f"  it needs: {needed or 'no setting'}{may}"
    if one.sees:
        yield f"  you see: {one.sees}"
    if one.size:
        yield f"  size: {one.size}"
    yield f"  remedy: {'; or '.join(map(remedy_request, one.remedies)) or 'none is known'}"
    if one.evidence.script:
        yield f"  shown without dsregress by results/reproducers/{one.evidence.script}"
        yield from (f"    {listing(run.releases)}: {run.line}" for run in one.evidence.runs)
    elif one.evidence.reason:
        yield f"  run: {one.evidence.reason}"
    yield from (f"  {label}: {url}" for label, url in upstream_links(one))
    withdrawn = f"; withdrawn {one.withdrawn}" if one.withdrawn else ""
    yield f"  published {one.published}, changed {one.modified}{withdrawn}"
    yield f"  Does it concern your job? {commands.AUDIT_FILES}"
