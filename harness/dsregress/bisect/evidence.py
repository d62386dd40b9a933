"""Evidence of a change's cause: the code that holds the extra bytes, and the upstream changes between the two versions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dsregress.advice import attribution
from dsregress.bisect.plan import Candidate, SearchPlan
from dsregress.bisect.questions import Question
from dsregress.bisect.result import SearchResult
from dsregress.bisect.runner import VersionRunner
from dsregress.envs.changed_files import changed_files
from dsregress.envs.repository import Repository
from dsregress.errors import HarnessError
from dsregress.model import Verdict

#: Lines of a commit's change that are shown; a longer one says less than its files do.
_MOST_PATCH_LINES = 40


def with_evidence(
    result: SearchResult,
    plan: SearchPlan,
    question: Question | None,
    runner: VersionRunner,
    repository: Repository | None,
) -> SearchResult:
    """Return the result with the code that holds the extra bytes, and the upstream changes: the files of that code first."""
    found = result.found
    if found is None or question is None:
        return result
    before, after = plan.versions[found.before], plan.versions[found.after]
    good, bad = (before, after) if plan.to is Verdict.BAD else (after, before)
    try:
        sites = _sites(good, bad, question, runner)
        files, patch = _changed_code(before, after, plan, runner, repository, " ".join(sites))
    except HarnessError as error:
        return msgspec.structs.replace(result, notes=(*result.notes, f"the changes are unknown: {error}"))
    return msgspec.structs.replace(result, sites=sites, files=files, patch=patch)


def _sites(good: Candidate, bad: Candidate, question: Question, runner: VersionRunner) -> tuple[str, ...]:
    """Return the sites that hold more in the bad version than in the good one; empty if the question is not about memory."""
    moment = attribution.moment_of(question.metric, question.phase)
    if not moment:
        return ()
    runner.watch.note(f"explaining {good.name} and {bad.name}")
    theirs, mine = runner.explanation(good), runner.explanation(bad)
    return () if mine is None else attribution.evidence(mine, theirs, moment)


def _changed_code(
    before: Candidate,
    after: Candidate,
    plan: SearchPlan,
    runner: VersionRunner,
    repository: Repository | None,
    sites: str,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return changed files, those that ``sites`` names first; and the changed lines of commits, if they are few."""
    if plan.kind == "releases" or repository is None:
        old_environment, new_environment = runner.build([before, after])
        return _named_first(changed_files(old_environment, new_environment, plan.package), sites), ()
    old, new = repository.commit(before.name), repository.commit(after.name)
    if old is None or new is None:
        return (), ()
    files = _named_first(repository.changed_files(old, new), sites)
    patch = repository.patch(old, new, [line.split(" ", 2)[2] for line in files if not line.startswith("binary ")])
    return files, patch if len(patch) <= _MOST_PATCH_LINES else ()


def _named_first(files: Sequence[str], sites: str) -> tuple[str, ...]:
    return tuple(sorted(files, key=lambda line: line.rpartition(" ")[2] not in sites))
