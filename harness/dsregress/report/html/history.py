"""The history of a finding over the releases, in words: since when, until when, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dsregress.model import Finding
from dsregress.report.problem_kinds import KINDS
from dsregress.report.problem_lines import ProblemLine
from dsregress.wording.quantities import listing


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Since when, until when, and what to do."""

    since: str
    until: str
    free: tuple[str, ...]  #: short names of the releases measured without it
    advice: str
    first: str = ""  #: stack ids: the first with it,
    last: str = ""  #: the last,
    before: str = ""  #: the one measured before the first,
    after: str = ""  #: and after the last; empty if there is none


def history(
    found: Finding,
    having: Sequence[str],
    measured: Sequence[str],
    names: Mapping[str, str],
    problem: ProblemLine | None = None,
) -> History:
    """Return the history of a finding. ``having`` and ``measured`` are stack ids in version order; all of ``having`` were
    measured. The finding belongs to ``problem``."""
    with_it = [stack for stack in measured if stack in set(having)]
    free = [stack for stack in measured if stack not in set(having)]
    if not with_it:
        return History(since="not known", until="not known", free=(), advice=_advice(found, problem, names))
    first, last = measured.index(with_it[0]), measured.index(with_it[-1])
    before = measured[first - 1] if first else ""
    after = measured[last + 1] if last + 1 < len(measured) else ""
    since = f"{names[with_it[0]]}" + (f"; not in {names[before]}, the release measured before" if before else "")
    until = (
        f"{names[with_it[-1]]}; not in {names[after]}, the release measured after"
        if after
        else f"still in {names[with_it[-1]]}, the newest"
    )
    gaps = [stack for stack in measured[first : last + 1] if stack not in with_it]
    if gaps:
        until += f"; not in {listing([names[stack] for stack in gaps], 6)} between them"
    return History(
        since=since,
        until=until,
        free=tuple(names[stack] for stack in free),
        advice=_advice(found, problem, names),
        first=with_it[0],
        last=with_it[-1],
        before=before,
        after=after,
    )


def _advice(found: Finding, problem: ProblemLine | None, names: Mapping[str, str]) -> str:
    """Return the advice in one or two sentences. It names the same release as the problem: one that trains the same
    workloads correctly, to the end, on their card."""
    if found.kind == "improvement":
        return "Nothing: it got better."
    if found.kind == "changed":
        return "If you rely on the old behaviour, set it explicitly in your configuration."
    if problem is None:
        return (
            "Nothing: it fails for the baseline too."
            if found.kind == "failed"
            else "Nothing: it is too small to matter."
        )
    if problem.setting:
        return problem.sentences
    meaning = KINDS[problem.kind].meaning
    if meaning and problem.release_to_use:
        return f"{meaning} Use {names[problem.release_to_use]}."
    if meaning:
        return f"{meaning} No measured release is known to be sound here: measure others."
    return "It costs memory, work or time, and breaks nothing."
