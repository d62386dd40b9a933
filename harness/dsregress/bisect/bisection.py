"""One bisection, from the request to the result: first the releases, then the commits between two of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from dsregress.bisect import candidates, timed_tester
from dsregress.bisect.evidence import with_evidence
from dsregress.bisect.exact_tester import ExactTester
from dsregress.bisect.halving import Transition
from dsregress.bisect.plan import Candidate, SearchPlan
from dsregress.bisect.questions import Question
from dsregress.bisect.result import Bisection, SearchResult
from dsregress.bisect.runner import VersionRunner
from dsregress.bisect.search import run_search, without_answer
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.envs.repository import Repository
from dsregress.errors import EnvironmentUnavailable, NothingMeasured, UsageError
from dsregress.model import Verdict
from dsregress.run.repositories import open_repository


@dataclasses.dataclass(frozen=True)
class BisectRequest:
    """The user's request."""

    package: str
    first: str  #: the older end
    last: str  #: the newer one
    question: Question | None
    to: Verdict  #: Bad: the first bad version; Good: the first that is good again
    every: bool = False  #: find all changes
    is_span: bool = False  #: the ends were not marked good and bad
    repository: str | None = None  #: URL or path
    most_rounds: int = timed_tester.MOST_ROUNDS


@dataclasses.dataclass(frozen=True)
class CandidateList:
    """The list to search, and the repository with its commits."""

    versions: tuple[Candidate, ...]
    repository: Repository | None

    @property
    def kind(self) -> str:
        """``commits`` or ``releases``."""
        return "commits" if self.versions[0].source else "releases"


def list_candidates(request: BisectRequest, settings: Settings, installer: Installer) -> CandidateList:
    """Return all versions from one end to the other. Build nothing. Raise UsageError for ends that cannot be searched."""
    if request.repository and settings.executor != "local":
        hint = "--executor local, or without --repository"
        raise UsageError("commits can only be built on this machine", where="--repository", hint=hint)
    repository = open_repository(request.repository, settings) if request.repository else None
    names = (request.first, request.last)
    try:
        first, last = (candidates.one_release(request.package, name, installer) for name in names)
    except (UsageError, EnvironmentUnavailable):
        if repository is None:
            raise
        old, new = (repository.release(request.package, name) for name in names)
        base = candidates.base_stack(repository, request.package, new, settings, installer)
        return CandidateList(candidates.committed(repository, request.package, old, new, base), repository)
    if first == last:
        raise UsageError(f"both ends are {first}", where="bisect", hint="name two versions")
    if candidates.release_order(first) > candidates.release_order(last):
        raise _wrong_order(request, first, last)
    if repository is not None:
        for name in (first, last):
            repository.release(request.package, name)  # a missing tag is reported before hours of runs
    return CandidateList(candidates.released(settings, installer, request.package, first, last), repository)


def bisect(request: BisectRequest, listed: CandidateList, runner: VersionRunner) -> Bisection:
    """Search the list; then, if it is one of releases and a repository is given, the commits between two of them.

    Raise UsageError if the ends turn out not to differ, or to differ the other way round, NothingMeasured if they have no
    value, KeyboardInterrupt. Everything measured until then is stored.
    """
    plan = SearchPlan(
        kind=listed.kind,
        package=request.package,
        versions=listed.versions,
        question=request.question,
        to=request.to,
        every=request.every,
        hunt=request.is_span or request.every,
    )
    result, question, reason = _search(plan, request, runner)
    results = [with_evidence(result, plan, question, runner, listed.repository)]
    if plan.kind == "releases" and listed.repository is not None and result.found is not None and question is not None:
        results.append(_search_commits(request, listed.repository, plan.versions, result.found, question, runner))
    return Bisection(
        workload=runner.cell(plan.versions[0]).workload,
        good=plan.versions[plan.good].name,
        bad=plan.versions[plan.bad].name,
        reason=reason,
        courses=tuple(results),
    )


def _search(
    plan: SearchPlan, request: BisectRequest, runner: VersionRunner
) -> tuple[SearchResult, Question | None, str]:
    """Return the result, the question, and the reason why it was chosen unless the user chose it."""
    if plan.question is not None and plan.question.is_timed:
        tester = timed_tester.TimedTester(plan, runner, request.most_rounds)
        return run_search(plan, tester, runner), tester.question, ""
    exact = ExactTester(plan, runner)
    result = run_search(plan, exact, runner)
    return msgspec.structs.replace(result, met=exact.met()), exact.question, exact.reason


def _search_commits(
    request: BisectRequest,
    repository: Repository,
    releases: Sequence[Candidate],
    found: Transition,
    question: Question,
    runner: VersionRunner,
) -> SearchResult:
    """Search the commits between two releases. If they cannot be searched, the result has the reason: the releases were
    found."""
    before, after = releases[found.before], releases[found.after]
    old, new = (repository.release(request.package, version.name) for version in (before, after))
    versions = candidates.committed(repository, request.package, old, new, after.stack)
    plan = SearchPlan(
        kind="commits",
        package=request.package,
        versions=versions,
        question=question,
        to=request.to,
        every=request.every,
    )
    runner.watch.note(f"now the {len(versions)} commits of {before.name}..{after.name}")
    try:
        result, _, _ = _search(plan, request, runner)
    except (UsageError, NothingMeasured) as error:
        return without_answer(plan, question, runner, str(error))
    return with_evidence(result, plan, question, runner, repository)


def _wrong_order(request: BisectRequest, first: str, last: str) -> UsageError:
    if request.is_span:
        return UsageError(f"{first} is newer than {last}", where="bisect", hint=f"write {last}..{first}")
    if request.to is Verdict.GOOD:
        what = f"with --fixed the bad version is the older one, and {first} is newer than {last}"
        return UsageError(what, where="bisect", hint="drop --fixed to find the first bad release")
    hint = f"swap them, or add --fixed to find the first release after {last} that is good again"
    return UsageError(f"the good version {first} is newer than the bad one {last}", where="bisect", hint=hint)
