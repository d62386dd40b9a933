"""Upstream changes that introduced a problem, or ended it, as found by `bisect` or tried by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from packaging.version import Version

from dsregress.compare.metrics import BY_NAME as BY_METRIC
from dsregress.compare.metrics import STEP_TIME
from dsregress.model import Verdict, WorkloadParts, split_workload
from dsregress.report.answer_matching import has_all, is_alike_asked, question_of
from dsregress.report.stored_answers import StoredBisection, StoredSearch, StoredTransition
from dsregress.reproduce.reproduction import Reproduction
from dsregress.versions.releases import parsed_version
from dsregress.wording import addresses
from dsregress.wording.quantities import listing


class UpstreamChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that introduced a problem, or ended it."""

    package: str
    before: str  #: the last release before the change
    after: str  #: the first one with it
    compare_url: str  #: of all changes between the two; empty if the package's repository is unknown
    where: str = ""  #: the subject of the commit, or the place; empty if it is unknown
    pull_url: str = ""  #: of its pull request, if it names one
    workload: str = ""  #: on which it was searched for
    tried: str = ""  #: the evidence that it is this one, if no bisection found it
    files: tuple[str, ...] = ()  #: ``+2 -1 FILE``: of that change
    patch: tuple[str, ...] = ()  #: its lines, if they are few
    sites: tuple[str, ...] = ()  #: the code that holds the bytes


#: Changed files of a change that are named.
_MOST_FILES = 3


def change_of(bisection: StoredBisection, releases: StoredSearch, found: StoredTransition) -> UpstreamChange:
    """Return the change that a search of releases found, with its commit if the search went on to commits."""
    before, after = found.before, found.after
    commits = next((course for course in bisection.courses if course.kind == "commits"), None)
    if commits is None or commits.found is None:
        return change_between(releases.package, before, after, workload=bisection.workload, sites=releases.sites)
    where = commits.about(commits.found.after).partition(" ")[2]  # without the day
    return change_between(
        releases.package,
        before,
        after,
        where=where,
        pull_url=addresses.pull_url(releases.package, where),
        workload=bisection.workload,
        files=commits.files,
        patch=commits.patch,
        sites=commits.sites or releases.sites,
    )


def introduced(
    found: Reproduction,
    bisections: Sequence[StoredBisection],
    parameters_of: Callable[[WorkloadParts], Mapping[str, object] | None],
) -> UpstreamChange | None:
    """Return the change that introduced what a reproduction shows, if a search by the same metric found one at its two
    releases, on a workload that has all that the smallest cell has; else None.

    The search may also end between the two releases if stored results agree; not for more work, which comes in steps.
    ``parameters_of`` returns a workload's parameters, or None if they are unknown.
    """
    for bisection in bisections:
        releases = next((course for course in bisection.courses if course.kind == "releases"), None)
        if releases is None or releases.to is not Verdict.BAD or releases.found is None:
            continue
        question = question_of(releases.metric)
        if question is None or releases.package != found.package or not is_alike_asked(question, found.question):
            continue
        if not _begins_at(found, releases.found):
            continue
        parameters = parameters_of(split_workload(bisection.workload))
        if parameters is not None and has_all(parameters, found.smallest.variant):
            change = change_of(bisection, releases, releases.found)
            if change.where:
                return change
    return None


def _begins_at(found: Reproduction, change: StoredTransition) -> bool:
    """Return True if what a reproduction shows began with this change."""
    if (change.before, change.after) == (found.good, found.bad):
        return True
    if BY_METRIC[found.question.metric].fails == STEP_TIME.fails:
        return False
    answers = {one.version: one.answer for one in found.history}
    answers |= {found.good: Verdict.GOOD, found.bad: Verdict.BAD}
    order = [one for one in sorted(answers, key=Version) if answers[one] is not Verdict.UNKNOWN]
    steps = [
        (one, other) for one, other in itertools.pairwise(order) if answers[one] is Verdict.GOOD is not answers[other]
    ]
    return steps == [(change.before, change.after)]


def in_words(change: UpstreamChange) -> str:
    """Return a change in Markdown: ``in deepspeed 0.18.3: [subject](address) (+172 -59 deepspeed/runtime/engine.py)``."""
    place = f"[{change.where}]({change.pull_url})" if change.pull_url else f"`{change.where}`"
    own = [file for file in change.files if is_of(change.package, file)]
    files = f" ({listing(own, _MOST_FILES)})" if own else ""
    return f"in {change.package} {change.after}: {place}{files}"


def is_of(package: str, changed: str) -> bool:
    """Return True if a changed file (``+12 -3 FILE``) is of the package itself, not of its tests or documentation."""
    return changed.rpartition(" ")[2].removeprefix("src/").startswith(f"{package}/")


def different(found: Sequence[UpstreamChange]) -> tuple[UpstreamChange, ...]:
    """Return each change once, by its most precise record: one that names the commit, preferably with a pull request."""
    changes: dict[object, UpstreamChange] = {}
    for one in found:
        if not any(_how_well_known(other) > _how_well_known(one) and may_be(one, other) for other in found):
            changes.setdefault(one.pull_url or (one.package, one.after, one.where), one)
    return tuple(changes.values())


def _how_well_known(change: UpstreamChange) -> tuple[bool, bool]:
    return change.where != "", change.pull_url != ""


def may_be(change: UpstreamChange, other: UpstreamChange) -> bool:
    """Return True if both may be the same change: ``other`` came after ``change.before``, and by ``change.after``."""
    if change.package != other.package:
        return False
    before, after, at = (parsed_version(one) for one in (change.before, change.after, other.after))
    if before is None or after is None or at is None:
        return change.after == other.after
    return before < at <= after


def change_between(package: str, before: str, after: str, **more: Any) -> UpstreamChange:
    """Return the change between two releases. ``more`` are further fields, if more is known."""
    url = addresses.compare_url(package, before, after)
    return UpstreamChange(package=package, before=before, after=after, compare_url=url, **more)
