"""A framework's working tree and the commit that it comes from, as two stacks: the change of a pull request.

Everything else in both is what the release before that commit was resolved to, so that they differ in the change alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
from packaging.version import Version

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.envs.repository import Commit, Repository
from dsregress.errors import NothingMeasured, UsageError
from dsregress.model import ADDED, Stack, stack_label
from dsregress.run.commit_builds import CommitSources, source_of_commit
from dsregress.run.repositories import open_repository
from dsregress.versions import commits, releases, stack_plans

#: A version, as Python and TOML state it: ``__version__ = "1.16.0.dev0"``.
_VERSION = re.compile(r"""^\s*(?:__version__|version)\s*=\s*["'](\d[^"']*)["']""", re.MULTILINE)


#: Framework -> the workloads that use it, of a project that selects none. The default ones use DeepSpeed, and no other.
_WORKLOADS: dict[str, tuple[str, ...]] = msgspec.json.decode(
    Path(__file__).with_name("checkout_workloads.json").read_bytes(), type=dict[str, tuple[str, ...]]
)


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A framework's working tree."""

    folder: str
    package: str  #: that it builds
    against: str  #: the branch whose last common commit it is compared with


def with_workloads(settings: Settings, checkout: Checkout) -> Settings:
    """Return the settings with workloads that use the framework, unless others than the default ones are configured."""
    used = _WORKLOADS.get(checkout.package, ())
    if not used or settings.select != Settings().select:
        return settings
    return msgspec.structs.replace(settings, select=used)


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
    own = (Path(settings.environments), Path(settings.results))  # a run before this one wrote them, not the change
    changed = repository.working_tree(without=[folder.resolve() for folder in own])
    if changed.sha == base.sha:
        hint = "commit or edit something, or name an older commit with --against"
        raise NothingMeasured(f"nothing is changed since {checkout.against}", where=checkout.folder, hint=hint)
    release = _release_before(repository, checkout.package, base, installer)
    stack = around(release)
    before = commits.version_of(release, base.sha)
    found = {before: ("before", base), commits.version_upon(before, changed.sha): ("this change", changed)}
    stacks = tuple(
        commits.stack_of(stack, checkout.package, version, label=_label(stack, f"{name} {commit.short}"))
        for version, (name, commit) in found.items()
    )
    plan = stack_plans.StackPlan(stacks=stacks, baseline=stacks[0], axes=(checkout.package,))
    sources = {
        version: source_of_commit(repository, checkout.package, commit, release)
        for version, (_, commit) in found.items()
    }
    return plan, sources


def _label(around: Stack, commit: str) -> str:
    """Return the label of a commit, with the packages that the label of the stack ``around`` it adds."""
    _, *added = around.label.removeprefix(stack_label(around.named, "")).split(ADDED)
    return stack_label(around.named, ADDED.join((commit, *added)))


def _release_before(repository: Repository, package: str, commit: Commit, installer: Installer) -> str:
    """Return the release that a commit comes after: by the newest tag at or before it, and by the version that its files
    state, as many projects tag their release branches alone; the newest one if neither is known. Raise UsageError,
    EnvironmentUnavailable."""
    published = releases.sorted_versions((*releases.known_releases(package), *_published(package, installer)))
    final = [one for one in published if not Version(one).is_prerelease]
    if not final:
        raise UsageError(f"no release of {package} is known", where="--source", hint="its index has to be reachable")
    tag = repository.newest_tag(commit)
    stated = [one for one in final if Version(one) < _stated_version(repository, package, commit)]
    fitting = [*([tag] if tag in final else []), *stated[-1:]]
    return max(fitting, key=Version) if fitting else final[-1]


def _published(package: str, installer: Installer) -> tuple[str, ...]:
    """Return what an index has of a package, unless releases of it are known without one."""
    return () if releases.known_releases(package) else installer.published(package)


def _stated_version(repository: Repository, package: str, commit: Commit) -> Version:
    """Return the version that the files of a commit state; 0 if none does."""
    module = package.replace("-", "_")
    code = (f"{folder}{module}/{file}.py" for folder in ("", "src/") for file in ("__init__", "version", "_version"))
    for file in ("version.txt", "VERSION", *code, "setup.py", "pyproject.toml"):
        text = (repository.file_at(commit, file) or b"").decode("utf-8", "replace")
        found = _VERSION.search(text)
        version = releases.parsed_version(found[1] if found else text.strip())
        if version is not None:
            return version
    return Version("0")
