"""The answer to ``audit``, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dsregress.advisories.advisory import Advisory, AdvisoryKind, FactCondition, Remedy
from dsregress.advisories.auditing import Audit, Question, StatedJob, asked
from dsregress.advisories.effects import decides
from dsregress.advisories.job_facts import FACTS, Conflict, Fact, choices
from dsregress.advisories.matching import (
    Match,
    Matched,
    condition_text,
    match_advisory,
    value_text,
)
from dsregress.advisories.remedy_choice import Arising, is_another_job
from dsregress.advisories.skipped_releases import Skipped
from dsregress.advisories.upgrading import UpgradeAnswer
from dsregress.model import AXES
from dsregress.probe.factor import either
from dsregress.report.advisory_words import remedy_request
from dsregress.report.verdict_words import (
    changed_releases,
    is_for_measuring,
    not_run_releases,
    open_questions,
    question_words,
    uncovered_text,
    unstated_text,
    upgrade_headline,
)
from dsregress.versions.declared_requirements import ReleaseConflict
from dsregress.versions.releases import known_releases
from dsregress.wording.quantities import enumeration, listing, plural

_MOST_QUESTIONS = 5
_MOST_SILENT = 2
_FEW_QUESTIONS = 2
_LONGEST_QUESTION = 160  # characters
_MOST_FACTS = 6
_MOST_IDS = 4
_MOST_GAINS = 5
_MOST_CONFLICTS = 2


def audit_text(audit: Audit, job: StatedJob) -> str:
    """Return the answer for a job as it is, ending in a newline."""
    sections = [
        [audit_headline(audit)],
        [*_conflict_lines(audit.conflicts, audit.ending, job)],
        *(list(advisory_lines(one, job)) for one in (*audit.concerned, *audit.usual)),
        [
            f"against all of these that a release of {name} ends: use {name} {one}"
            for name, one in audit.for_all.items()
        ],
        [*_arising_lines(audit.arising)],
        [*_also(audit)],
        [*_question_lines(audit.questions)],
        [*_unknown_lines(audit.unrun_releases, ())],
        [*_closing(audit, job, len(audit.unrun_releases))],
    ]
    return _joined(sections)


def audit_headline(audit: Audit) -> str:
    """Return the first line: how many advisories concern the job."""
    count = len(audit.concerned)
    verb = "concerns" if count == 1 else "concern"
    found = f"{count} of {plural(audit.total, 'advisory', 'advisories')} {verb} this job"
    if not count:
        found = f"none of {plural(audit.total, 'advisory', 'advisories')} is known to concern this job"
    if audit.usual:
        verb = "does" if len(audit.usual) == 1 else "do"
        found += f"; {len(audit.usual)} more usually {verb}: {unstated_text(audit.usual)}"
    open_ones = sum(len(one.matched) for one in audit.questions)
    found += f"; {open_ones} more may, by what was not stated" if open_ones else ""
    found = f"not known: {not_run_releases(audit.unlisted)}; {found}" if audit.unlisted else found
    return f"{audit.conflicts[0].text}; {found}" if audit.conflicts else found


def upgrade_text(answer: UpgradeAnswer, audit: Audit, old: StatedJob, new: StatedJob, command: str) -> str:
    """Return the answer for an upgrade, ending in a newline. ``audit`` is of the new job; ``command`` measures what is not
    known."""
    sections = [
        [upgrade_headline(answer, old, new)],
        *upgrade_sections(answer, old, new),
        [f"{measure_words(old, new)}: {command}"] if is_for_measuring(answer) else [],
        [*_closing(audit, new, len(answer.not_run))],
    ]
    return _joined(sections)


def measure_words(old: StatedJob, new: StatedJob) -> str:
    """Return what to do with the command that measures: first get a harness that knows the releases."""
    targets = {name: version for name, version in new.versions.items() if old.versions.get(name) != version}
    newer = [f"{name} {one}" for name, one in targets.items() if name in AXES and one not in known_releases(name)]
    return f"measure it, with a dsregress that knows {listing(newer)}" if newer else "measure it"


def open_lines(answer: UpgradeAnswer, releases: Sequence[str]) -> list[str]:
    """Return what the verdict depends on, and what it leaves open: what is not stated, and what was not run with the
    ``releases``."""
    return [
        *_titled("conditions", [one.matched for one in answer.conditions], _condition_line),
        *_question_lines(open_questions(answer)),
        *_unknown_lines(answer.not_run, releases),
    ]


def reason_sections(answer: UpgradeAnswer, old: StatedJob | None, new: StatedJob) -> list[list[str]]:
    """Return what is against an upgrade, and the advisories for which something is to be set."""
    reasons = [*answer.against, *answer.usual, *(one.matched for one in answer.conditions)]
    ending = answer.ending if answer.conflicts and not answer.instead else {}
    return [
        [*_conflict_lines(answer.conflicts, ending, new if old is None else old)],
        *(list(advisory_lines(one, new, old)) for one in reasons),
    ]


def upgrade_sections(answer: UpgradeAnswer, old: StatedJob | None, new: StatedJob) -> list[list[str]]:
    """Return what stands below the verdict: its reasons, what the upgrade brings and ends, and what is open. There is no old
    job if a release is judged alone."""
    releases = changed_releases(old, new) if old is not None else []
    changing = [one for one in answer.depends if not decides(one.advisory)]
    both = "in both" if old is not None else "with each release"
    return [
        *reason_sections(answer, old, new),
        [*_arising_lines(answer.arising)],
        [*_titled("changes", [*answer.changes, *changing], _change_line)],
        [*_gain_lines(answer.gained)],
        [*_titled(f"{both}, and not ended by it", answer.kept, _kept_line)],
        [*_titled("costs", answer.costs, _titled_id)],
        [*_skip_lines(answer.skipped)],
        [*_question_lines(open_questions(answer))],
        [*_question_lines(asked(answer.kept_open), f"not stated, and {both}")],
        [*_unknown_lines(answer.not_run, releases)],
        [uncovered_text(answer)] if answer.uncovered else [],
        [f"{both}, {_conflict_line(one)}" for one in answer.kept_conflicts],
        [f"not known what {listing(answer.unknown_requirements)} requires of the others"]
        if answer.unknown_requirements
        else [],
    ]


def _conflict_lines(conflicts: Sequence[ReleaseConflict], ending: Mapping[str, str], old: StatedJob) -> Iterator[str]:
    for one in conflicts:
        yield _conflict_line(one)
    if moved := [f"{name} {release}" for name, release in ending.items() if old.versions.get(name) != release]:
        yield f"  remedy: use {enumeration(moved)}"


def _conflict_line(one: ReleaseConflict) -> str:
    return f"{'cannot be installed together' if one.declared else 'do not run together'}: {one.text}"


def advisory_lines(one: Matched, job: StatedJob, old: StatedJob | None = None) -> Iterator[str]:
    """Yield an advisory that concerns a job: what the reader sees, its reasons and remedies."""
    advisory = one.advisory
    both = "" if old is None or not _concerned_too(advisory, old) else " (in both)"
    yield f"{advisory.id} {advisory.kind.value}{both}: {advisory.title}"
    if advisory.sees:
        yield f"  you see: {advisory.sees}"
    if advisory.size:
        yield f"  size: {advisory.size}"
    if reasons := [*_reasons(one, job)]:
        yield f"  because: {', '.join(reasons)}"
    if one.open:
        conditions = enumeration([*map(condition_text, one.open)])
        yield f"  if, as is usual and was not stated: {conditions} ({_how_to_say(one.open)})"
    if remedies := [remedy_request(each) for each in _told(one)]:
        yield f"  remedy: {'; or '.join(remedies[:4])}"
    else:
        yield "  remedy: none is known"


def _told(one: Matched) -> tuple[Remedy, ...]:
    """Return the remedies to name: those that end it, of which releases are one."""
    return one.remedies or tuple(each for each in one.advisory.remedies if not each.package and not each.fact)


def _concerned_too(advisory: Advisory, old: StatedJob) -> bool:
    return match_advisory(advisory, old.job).match is Match.CONCERNED


def _reasons(one: Matched, job: StatedJob) -> Iterator[str]:
    for package in one.advisory.packages:
        if package in job.versions:
            yield f"{package} {job.versions[package]}"
    for condition in one.advisory.conditions:
        if condition not in one.open and (fact := job.facts.get(condition.fact)) is not None:
            yield f"{condition_text(condition)} ({fact.source})"


def fact_text(fact: Fact) -> str:
    """Return a fact with the place that states it: ``ZeRO stage 3 (ds.json: zero_optimization.stage)``."""
    return f"{value_text(fact.name, fact.value)} ({fact.source})"


def _also(audit: Audit) -> Iterator[str]:
    yield from _titled("behaves so", audit.notes, _change_line)
    yield from _titled("costs", audit.costs, _titled_id)


def _titled(title: str, found: Sequence[Matched], line: Callable[[Matched], str]) -> Iterator[str]:
    if found:
        yield f"{title}:"
        yield from (f"  {line(one)}" for one in found)


def _titled_id(one: Matched) -> str:
    return f"{one.advisory.id} {one.advisory.title}"


def _condition_line(one: Matched) -> str:
    return f"{_titled_id(one)}: {one.advisory.size}" if one.advisory.size else _titled_id(one)


def _kept_line(one: Matched) -> str:
    releases = [remedy_request(each) for each in one.remedies if each.package]
    return f"{_titled_id(one)}; {releases[0]}" if releases else _titled_id(one)


def _change_line(one: Matched) -> str:
    settings = [remedy_request(each) for each in one.advisory.remedies if each.fact and not is_another_job(each)]
    return f"{_if_open(one)}; to keep it as it was: {either(settings[:2])}" if settings else _if_open(one)


def _if_open(one: Matched) -> str:
    """Return a title, with the facts that it depends on."""
    parts = [*map(condition_text, one.open), *(f"some releases of {name}" for name in one.open_packages)]
    return f"{_titled_id(one)}, with {enumeration(parts)}" if parts else _titled_id(one)


def _gain_lines(gained: Sequence[Matched]) -> Iterator[str]:
    """Yield the faults that end; of those that may, some that everybody can tell of a job of their own, or that nobody sees
    in it: it trains wrong."""
    sure = [one for one in gained if one.match is Match.CONCERNED]
    asked_for = {each.advisory.id for one in asked(gained) if one.is_common for each in one.matched}
    told = [one for one in gained if one not in sure and (one.advisory.id in asked_for or _is_silent(one.advisory))]
    shown = [*sure, *told[:_MOST_GAINS]]
    yield from _titled("gained", shown, _if_open)
    if rest := len(gained) - len(shown):
        yield f"{'  and' if shown else 'gained:'} {plural(rest, 'fix', 'fixes')} for what was not stated"


def _is_silent(advisory: Advisory) -> bool:
    return advisory.kind in (AdvisoryKind.TRAINS_WRONG, AdvisoryKind.SAVES_WRONG)


def _arising_lines(arising: Sequence[Arising]) -> Iterator[str]:
    for one in arising:
        conditions = [condition_text(each) for each in one.matched.open]
        when = f", with {enumeration(conditions)}" if conditions else ""
        remedies = [remedy_request(each) for each in one.matched.advisory.remedies if each.fact]
        then = f": {remedies[0]}" if remedies else ""
        yield f"if you {remedy_request(one.remedy)}{when}: {_titled_id(one.matched)}{then}"


def _skip_lines(skipped: Sequence[Skipped]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for one in skipped:
        groups.setdefault(f"{one.package} {releases_text(one.releases)}", []).append(_titled_id(one.matched))
    if groups:
        yield "skip on the way:"
    yield from (f"  {releases}: {'; '.join(titles)}" for releases, titles in groups.items())


def releases_text(releases: Sequence[str]) -> str:
    """Return ``0.17.0 to 0.17.6``, or one release."""
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def _question_lines(questions: Sequence[Question], title: str = "not stated") -> Iterator[str]:
    """Yield the questions that a reader can answer at once, and those about faults that nobody sees in a run, and count what
    else decides."""
    if questions:
        yield f"{title}:"
    shown = [one for one in questions if one.is_common and len(one.conditions) == 1][:_MOST_QUESTIONS]
    shown += [one for one in questions if one not in shown and _decides_silent(one)][:_MOST_SILENT]
    for one in shown:
        ids = listing([each.advisory.id for each in one.matched], _MOST_IDS)
        yield f"  {len(one.matched)} more with {question_words(one)} ({_how_to_say(one.conditions)}): {ids}"
    rest = [one for one in questions if one not in shown]
    if len(rest) <= _FEW_QUESTIONS and all(len(question_words(one)) <= _LONGEST_QUESTION for one in rest):
        for one in rest:
            ids = listing([each.advisory.id for each in one.matched], _MOST_IDS)
            yield f"  {len(one.matched)} more with {question_words(one)}: {ids}"
    else:
        counts = Counter(
            name
            for one in rest
            for name in (*(each.fact for each in one.conditions), *one.packages)
            for _ in one.matched
        )
        facts = [f"{name} ({count})" for name, count in counts.most_common(_MOST_FACTS)]
        more = " and rarer ones" if len(counts) > _MOST_FACTS else ""
        yield f"  {sum(len(one.matched) for one in rest)} more by {', '.join(facts)}{more}; `audit --json` has them"


def _decides_silent(question: Question) -> bool:
    """Return True if it decides about a job that trains or saves what is wrong, and facts alone answer it."""
    return not question.packages and any(_is_silent(one.advisory) for one in question.matched)


def _how_to_say(conditions: Iterable[FactCondition]) -> str:
    """Return what a reader can state: ``--set resume=yes|no``."""
    return " ".join(f"--set {one.fact}={choices(FACTS[one.fact])}" for one in conditions)


def _unknown_lines(unknown: Sequence[Matched], releases: Sequence[str]) -> Iterator[str]:
    """Yield what was not run; of an advisory with several reasons, the ``releases`` that the job goes to if they are among
    them."""
    if not unknown:
        return
    reasons: dict[tuple[str, ...], list[Matched]] = {}
    for one in unknown:
        reasons.setdefault(tuple(each for each in one.not_run if each in releases) or one.not_run, []).append(one)
    yield "not known, as it was not run:"
    for what, found in reasons.items():
        named = _titled_id(found[0]) if len(found) == 1 else listing([one.advisory.id for one in found], _MOST_IDS)
        yield f"  {', '.join(what)}: {named}"


def _closing(audit: Audit, job: StatedJob, listed: int = 0) -> Iterator[str]:
    if card := job.facts.get("card"):
        yield f"no advisory depends on which card it is: whether the job fits {card.value}, `fit` measures"
    if audit.ignored:
        yield f"ignored: {', '.join(audit.ignored)}"
    if unknown := max(0, len(audit.unknown) - listed):
        verb = "is" if unknown == 1 else "are"
        yield f"{unknown} more {verb} not known: a release or a value was not run (`--json` says which)"
    if audit.free:
        yield f"{plural(audit.free, 'other advisory does', 'other advisories do')} not concern it"


def conflict_notes(conflicts: Sequence[Conflict]) -> Iterator[str]:
    """Yield a line for each fact that two places state differently, and one for many."""
    for one in conflicts[:_MOST_CONFLICTS]:
        yield f"{one.first.name} is stated in two ways: {fact_text(one.first)}, and {fact_text(one.second)}"
    if rest := [one.first.name for one in conflicts[_MOST_CONFLICTS:]]:
        yield f"so {'is' if len(rest) == 1 else 'are'} {enumeration(rest)}"


def _joined(sections: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def facts_text(facts: Mapping[str, Fact]) -> str:
    """Return all facts, one a line, ending in a newline."""
    return "".join(f"{name}: {fact_text(fact)}\n" for name, fact in sorted(facts.items()))
