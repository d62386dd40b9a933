"""One bisection from what was asked to what was found: releases, and then the commits between two of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from harness.advice import attribution
from harness.bisect import candidates, timed
from harness.bisect.exact import ExactTester
from harness.bisect.halving import Transition
from harness.bisect.plan import Candidate, SearchPlan
from harness.bisect.questions import Question
from harness.bisect.result import Bisection, SearchResult
from harness.bisect.runner import VersionRunner
from harness.bisect.search import run_search, without_answer
from harness.config.settings import Settings
from harness.envs.changed_files import changed_files
from harness.envs.installer import Installer
from harness.envs.repository import Repository
from harness.errors import EnvironmentUnavailable, HarnessError, NothingMeasured, UsageError
from harness.model import Verdict

#: Lines of a commit's change that are shown; a longer one says less than its files do.
_MOST_PATCH_LINES = 40


@dataclasses.dataclass(frozen=True)
class BisectRequest:
    """What a person asks for."""

    package: str
    first: str  #: the older end
    last: str  #: the newer one
    question: Question | None
    to: Verdict  #: Bad: the first bad version; Good: the first that is good again
    every: bool = False
    is_span: bool = False  #: nothing was said about the ends
    repository: str | None = None  #: URL or path
    most_rounds: int = timed.MOST_ROUNDS


@dataclasses.dataclass(frozen=True)
class CandidateList:
    """The list to search, and where its commits are."""

    versions: tuple[Candidate, ...]
    repository: Repository | None

    @property
    def kind(self) -> str:
        return "commits" if self.versions[0].made_of else "releases"


def listed(asked: BisectRequest, settings: Settings, installer: Installer) -> CandidateList:
    """All between the ends. Raises UsageError for ends that are none, before anything is built."""
    if asked.repository and settings.executor != "local":
        hint = "--executor local, or without --repository"
        raise UsageError("commits are built on this machine only", where="--repository", hint=hint)
    repository = candidates.open_repository(asked.repository, settings) if asked.repository else None
    names = (asked.first, asked.last)
    try:
        first, last = (candidates.one_release(asked.package, name, installer) for name in names)
    except (UsageError, EnvironmentUnavailable):
        if repository is None:
            raise
        old, new = (repository.release(asked.package, name) for name in names)
        base = candidates.base_stack(repository, asked.package, new, settings, installer)
        return CandidateList(candidates.committed(repository, asked.package, old, new, base), repository)
    if first == last:
        raise UsageError(f"both ends are {first}", where="bisect", hint="name two versions")
    if candidates.in_order(first) > candidates.in_order(last):
        raise _wrong_order(asked, first, last)
    if repository is not None:
        for name in (first, last):
            repository.release(asked.package, name)  # that it has no such tag is better known before hours of runs
    return CandidateList(candidates.released(settings, installer, asked.package, first, last), repository)


def bisect(asked: BisectRequest, what: CandidateList, bench: VersionRunner) -> Bisection:
    """Search the list, and where there is a repository and the list is one of releases, the commits as well.

    Raises UsageError where the ends turn out to be none, NothingMeasured where they say nothing, KeyboardInterrupt; what
    was measured is stored.
    """
    search = SearchPlan(
        kind=what.kind,
        package=asked.package,
        versions=what.versions,
        question=asked.question,
        to=asked.to,
        every=asked.every,
        hunt=asked.is_span or asked.every,
    )
    course, question, reason = _searched(search, asked, bench)
    courses = [_explained(course, search, question, bench, what.repository)]
    if what.kind == "releases" and what.repository is not None and course.found is not None and question is not None:
        courses.append(_commits(asked, what.repository, what.versions, course.found, question, bench))
    return Bisection(
        workload=bench.cell(what.versions[0]).workload,
        good=what.versions[search.good].name,
        bad=what.versions[search.bad].name,
        reason=reason,
        courses=tuple(courses),
    )


def _searched(
    search: SearchPlan, asked: BisectRequest, bench: VersionRunner
) -> tuple[SearchResult, Question | None, str]:
    """What was found, the question, and why it is that one."""
    if search.question is not None and search.question.is_timed:
        asker = timed.TimedTester(search, bench, asked.most_rounds)
        return run_search(search, asker, bench), asker.asked, ""
    exact = ExactTester(search, bench)
    return run_search(search, exact, bench), exact.asked, exact.reason


def _commits(
    asked: BisectRequest,
    repository: Repository,
    releases: Sequence[Candidate],
    found: Transition,
    question: Question,
    bench: VersionRunner,
) -> SearchResult:
    """The commits between two releases. That their ends are no ends of a search is told in the course, not raised: the
    releases are found all the same."""
    before, after = releases[found.before], releases[found.after]
    old, new = (repository.release(asked.package, version.name) for version in (before, after))
    versions = candidates.committed(repository, asked.package, old, new, after.stack)
    search = SearchPlan(
        kind="commits", package=asked.package, versions=versions, question=question, to=asked.to, every=asked.every
    )
    bench.watch.note(f"now the {len(versions)} commits of {before.name}..{after.name}")
    try:
        course, _, _ = _searched(search, asked, bench)
    except (UsageError, NothingMeasured) as error:
        return without_answer(search, question, bench, str(error))
    return _explained(course, search, question, bench, repository)


def _explained(
    course: SearchResult,
    search: SearchPlan,
    question: Question | None,
    bench: VersionRunner,
    repository: Repository | None,
) -> SearchResult:
    """With the places that hold the extra bytes, and what changed upstream: the files of those places first."""
    found = course.found
    if found is None or question is None:
        return course
    before, after = search.versions[found.before], search.versions[found.after]
    try:
        sites = (
            _sites(before, after, question, bench)
            if search.to is Verdict.BAD
            else _sites(after, before, question, bench)
        )
        files, patch = _changed(before, after, search, bench, repository, " ".join(sites))
    except HarnessError as error:
        return msgspec.structs.replace(course, notes=(*course.notes, f"what changed is not known: {error}"))
    return msgspec.structs.replace(course, sites=sites, files=files, patch=patch)


def _changed(
    before: Candidate,
    after: Candidate,
    search: SearchPlan,
    bench: VersionRunner,
    repository: Repository | None,
    named: str,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What changed upstream, by file, and of commits the lines, where they are few. Files that are ``named`` come first."""
    if search.kind == "releases" or repository is None:
        old_environment, new_environment = bench.build([before, after])
        return _named_first(changed_files(old_environment, new_environment, search.package), named), ()
    old, new = repository.commit(before.name), repository.commit(after.name)
    if old is None or new is None:
        return (), ()
    files = _named_first(repository.changed_files(old, new), named)
    patch = repository.patch(old, new, [line.split(" ", 2)[2] for line in files if not line.startswith("binary ")])
    return files, patch if len(patch) <= _MOST_PATCH_LINES else ()


def _named_first(files: Sequence[str], named: str) -> tuple[str, ...]:
    return tuple(sorted(files, key=lambda line: line.rpartition(" ")[2] not in named))


def _sites(good: Candidate, bad: Candidate, question: Question, bench: VersionRunner) -> tuple[str, ...]:
    """Who holds more in the bad version than in the good one; nobody where the question is not of memory."""
    moment = attribution.moment_of(question.metric, question.phase)
    if not moment:
        return ()
    bench.watch.note(f"explaining {good.name} and {bad.name}")
    theirs, mine = bench.explanation(good), bench.explanation(bad)
    if mine is None:
        return ()
    return attribution.evidence(mine, theirs, moment)


def _wrong_order(asked: BisectRequest, first: str, last: str) -> UsageError:
    if asked.is_span:
        return UsageError(f"{first} is newer than {last}", where="bisect", hint=f"write {last}..{first}")
    if asked.to is Verdict.GOOD:
        what = f"with --fixed the bad version is the older one, and {first} is newer than {last}"
        return UsageError(what, where="bisect", hint="leave --fixed out to find the first bad release")
    hint = f"swap them, or add --fixed to find the first release after {last} that is good again"
    return UsageError(f"the good version {first} is newer than the bad one {last}", where="bisect", hint=hint)
