"""A framework's working tree and the commit that it comes from, as two stacks: the change of a pull request.

Everything else in both is what the release before that commit was resolved to, so that they differ in the change alone.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.envs.repository import Commit, Repository
from dsregress.errors import NothingMeasured, UsageError
from dsregress.model import Stack, stack_label
from dsregress.run.commit_builds import CommitSources, source_of_commit
from dsregress.run.repositories import open_repository
from dsregress.versions import commits, stack_plans
from dsregress.versions.specs import UnknownVersion


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A framework's working tree."""

    folder: str
    package: str  #: that it builds
    against: str  #: the branch whose last common commit it is compared with


def plan_checkout(
    checkout: Checkout, settings: Settings, installer: Installer, around: Callable[[str], Stack]
) -> tuple[stack_plans.StackPlan, CommitSources]:
    """Return the two stacks, the older commit first, and their sources. ``around`` makes the stack of a release.

    Raise NothingMeasured if nothing was changed, UsageError, EnvironmentUnavailable.
    """
    if settings.executor != "local":
        what = "can only be built on this machine"
        raise UsageError(what, where="--source", hint="--executor local, or without --source")
    repository = open_repository(checkout.folder, settings)
    base = repository.merge_base(repository.head(), checkout.against)
    changed = repository.working_tree()
    if changed.sha == base.sha:
        hint = "commit or edit something, or name an older commit with --against"
        raise NothingMeasured(f"nothing is changed since {checkout.against}", where=checkout.folder, hint=hint)
    release = _release_before(repository, checkout.package, base, installer)
    stack = around(release)
    before = commits.version_of(release, base.sha)
    found = {before: ("before", base), commits.version_upon(before, changed.sha): ("this change", changed)}
    stacks = tuple(
        commits.stack_of(stack, checkout.package, version, label=stack_label(stack.named, f"{name} {commit.short}"))
        for version, (name, commit) in found.items()
    )
    plan = stack_plans.StackPlan(stacks=stacks, baseline=stacks[0], axes=(checkout.package,))
    sources = {
        version: source_of_commit(repository, checkout.package, commit, release)
        for version, (_, commit) in found.items()
    }
    return plan, sources


def _release_before(repository: Repository, package: str, commit: Commit, installer: Installer) -> str:
    """Return the release of the newest tag at or before a commit; the newest one if the clone has no tag of a release.
    Raise UsageError, EnvironmentUnavailable."""
    tag = repository.newest_tag(commit)
    if tag:
        try:
            return stack_plans.resolve(package, tag, installer.published)[0]
        except UnknownVersion:  # a tag that was never uploaded
            pass
    return stack_plans.resolve(package, "latest", installer.published)[0]
