"""The release to pin for a job: the newest one that nothing rules out. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.matching import KnownJob, parsed
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict, judge_release


class PinAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The release to pin, with what is to be set, and the newer ones that are not advised."""

    package: str
    release: str  #: empty if each is ruled out, or not known
    answer: UpgradeAnswer | None
    newer: tuple[
        tuple[str, UpgradeAnswer], ...
    ]  #: release and verdict, newest first; all of them if there is none to pin

    @property
    def is_ruled_out(self) -> bool:
        """True if each release has a fault that nothing ends, or cannot be installed beside the others."""
        return not self.release and bool(self.newer) and all(answer.verdict is Verdict.NO for _, answer in self.newer)


def choose_release(advisories: Sequence[Advisory], job: KnownJob, package: str, releases: Sequence[str]) -> PinAnswer:
    """Return the newest of these releases with which a job has no fault but those that a setting ends."""
    newer: list[tuple[str, UpgradeAnswer]] = []
    for release in sorted(releases, key=parsed, reverse=True):
        answer = judge_release(advisories, job.changed(versions={package: release}), package)
        if answer.verdict in (Verdict.YES, Verdict.IF_SET):
            return PinAnswer(package=package, release=release, answer=answer, newer=tuple(newer))
        newer.append((release, answer))
    return PinAnswer(package=package, release="", answer=None, newer=tuple(newer))
