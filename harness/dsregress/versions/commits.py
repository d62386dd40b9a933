"""A commit of a framework as a version of it, and the lock of a stack that holds one.

A commit is named after the release before it: ``0.15.4+g1a2b3c4d5e6f``, which PEP 440 sorts right behind that release.
Everything else in its stack is what the lock of a release pins, so that commits differ in the framework's code alone.
"""

from __future__ import annotations

import hashlib
import re

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dsregress.errors import UsageError
from dsregress.model import LockedStack, Stack

#: Letters of a commit's hash in its version. Of a million commits, two share them with a chance of 1 in 500.
_HASH_LETTERS = 12

_COMMIT = re.compile(r"(?P<release>.+)\+g(?P<sha>[0-9a-f]{7,40})(?:\.g[0-9a-f]{7,40})?")


def version_of(release: str, sha: str) -> str:
    """Return the version of a commit that comes after a release."""
    return f"{release}+g{sha[:_HASH_LETTERS]}"


def version_upon(before: str, sha: str) -> str:
    """Return the version of a change, which PEP 440 sorts right behind the version of the commit ``before`` it."""
    return f"{before}.g{sha[:_HASH_LETTERS]}"


def is_commit(version: str) -> bool:
    """Return True if a stack's version names a commit rather than a release."""
    return _COMMIT.fullmatch(version) is not None


def base_of(version: str) -> str:
    """Return the hash of the commit that a version names, or that its change is upon; empty for a release."""
    found = _COMMIT.fullmatch(version)
    return found["sha"] if found is not None else ""


def stack_of(stack: Stack, package: str, version: str, label: str = "") -> Stack:
    """Return the stack with another version of one package."""
    return Stack(python=stack.python, versions={**stack.versions, package: version}, label=label)


def lock_of(locked: LockedStack, stack: Stack, package: str) -> LockedStack:
    """Return the lock of a release's stack with that package at a commit instead, identified by the commit and not by its
    path.

    Raise UsageError if the release's lock does not have the package.
    """
    mine = canonicalize_name(package)
    kept = [line for line in locked.requirements if _package_name(line) != mine]
    if len(kept) == len(locked.requirements):
        raise UsageError(
            f"{package} is not in the stack {locked.stack.id}", where="--repository", hint="--package names another"
        )
    lines = tuple(sorted((*kept, f"{package}=={stack.versions[package]}")))
    return LockedStack(stack=stack, requirements=lines, sha256=hashlib.sha256("\n".join(lines).encode()).hexdigest())


def _package_name(line: str) -> str:
    try:
        return canonicalize_name(Requirement(line).name)
    except InvalidRequirement:
        return ""
