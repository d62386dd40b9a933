"""A search over versions: questions -> cells -> results -> answers, until `harness.bisect.halving` has nothing left to ask.

What is stored is asked first, before an environment is built, and each probe is stored as soon as it is measured; so a
search that was interrupted goes on when it is called again, and one whose answers are all there runs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from harness.bisect import halving, questions
from harness.bisect.plan import Candidate, SearchPlan, VersionAnswer, VersionTester
from harness.bisect.questions import Question
from harness.bisect.result import Probe, SearchResult
from harness.bisect.runner import VersionRunner
from harness.compare.metrics import BY_NAME
from harness.config.thresholds import Thresholds
from harness.model import Verdict


def run_search(search: SearchPlan, asker: VersionTester, bench: VersionRunner) -> SearchResult:
    """Search to the end. Raises UsageError where the ends make no search, NothingMeasured where they say nothing."""
    began, runs = time.monotonic(), bench.runs
    count = len(search.versions)
    said = asker.answers()
    if said:
        bench.watch.note(f"{len(said)} of {count} {search.kind} are answered by stored results")
    while True:
        answers = {at: one.answer for at, one in said.items()}
        at = halving.next_probe(count, answers, search.to, every=search.every, hunt=search.hunt)
        if at is None:
            break
        ends = [end for end in (0, count - 1) if end not in answers]
        if not ends:
            bench.watch.note(_left(search, answers, bench))
        asker.ask(ends or [at])
        said = asker.answers()
        for place in ends or [at]:
            one = said[place]
            bench.watch.note(f"  {search.versions[place].name}: {one.answer.value}, {one.reading.text}")
    question = asker.asked
    metric = BY_NAME[question.metric] if question else None
    probes = tuple(_probe(version, bench, said.get(at)) for at, version in enumerate(search.versions))
    return SearchResult(
        kind=search.kind,
        package=search.package,
        metric=question.name if question else "",
        title=question.title if question else "any relevant difference",
        unit=metric.unit if metric else "",
        to=search.to,
        every=search.every,
        probes=probes,
        changes=halving.changes(count, answers),
        runs=bench.runs - runs,
        took_s=round(time.monotonic() - began, 1),
        notes=_notes(search, said, question, bench.settings.thresholds),
    )


def without_answer(search: SearchPlan, question: Question, bench: VersionRunner, why: str) -> SearchResult:
    """A search that could not begin, as its ends are none."""
    return SearchResult(
        kind=search.kind,
        package=search.package,
        metric=question.name,
        title=question.title,
        unit=BY_NAME[question.metric].unit,
        to=search.to,
        every=search.every,
        probes=tuple(_probe(version, bench, None) for version in search.versions),
        changes=(),
        runs=0,
        took_s=0.0,
        notes=(why,),
    )


def _left(search: SearchPlan, answers: Mapping[int, Verdict], bench: VersionRunner) -> str:
    """``0.15.0..0.16.2 is left, 2 asked, about 3 more runs (45 s)``."""
    count = len(search.versions)
    change = halving.sought(count, answers, search.to)
    low, high = (change.before, change.after) if change and not search.every else (0, count - 1)
    runs = halving.runs_left(count, answers, search.to, every=search.every)
    word = "about" if change and not search.every else "at most"
    seconds = runs * bench.expected_s()
    duration = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    span = f"{search.versions[low].name}..{search.versions[high].name}"
    return f"left: {span}; {len(answers)} of {count} answered, {word} {runs} more run{'s' * (runs != 1)}, {duration}"


def _probe(version: Candidate, bench: VersionRunner, said: VersionAnswer | None) -> Probe:
    cell = bench.cell(version)
    if said is None:
        return Probe(name=version.name, stack=cell.stack.id, cell=cell.id, about=version.about)
    return Probe(
        name=version.name,
        stack=cell.stack.id,
        cell=cell.id,
        about=version.about,
        answer=said.answer,
        value=said.reading.value,
        text=said.reading.text,
        stored=said.stored,
    )


def _notes(
    search: SearchPlan, said: Mapping[int, VersionAnswer], question: Question | None, limits: Thresholds
) -> tuple[str, ...]:
    """What a person should know besides: readings that are neither as good nor as bad, changes that nobody asked for."""
    notes = []
    if question is not None and search.good in said and search.bad in said:
        good, bad = said[search.good].reading, said[search.bad].reading
        differ = questions.ends(question, good, bad, limits).differ
        between = [
            f"{search.versions[at].name} ({one.reading.text})"
            for at, one in sorted(said.items())
            if one.answer is not Verdict.UNKNOWN and differ and questions.is_between(one.reading, good, bad)
        ]
        if between:
            notes.append(
                f"neither as good nor as bad as the ends: {', '.join(between)}; there may be more than one change"
            )
    answers = {at: one.answer for at, one in said.items()}
    found = halving.sought(len(search.versions), answers, search.to)
    others = [change for change in halving.changes(len(search.versions), answers) if change != found]
    if others and not search.every:
        spans = ", ".join(
            f"{'bad' if c.to is Verdict.BAD else 'good'} again in "
            f"{search.versions[c.before].name}..{search.versions[c.after].name}"
            for c in others
        )
        notes.append(f"not the only change: {spans}; --all finds each")
    return tuple(notes)
