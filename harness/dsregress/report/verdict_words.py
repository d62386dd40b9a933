"""The verdict on an upgrade as one line: the answer, what it depends on, and what it rests on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dsregress.advisories.advisory import Remedy
from dsregress.advisories.auditing import Question, StatedJob, asked
from dsregress.advisories.effects import decides
from dsregress.advisories.job_facts import COMMON_FACTS
from dsregress.advisories.matching import Matched, condition_text
from dsregress.advisories.remedy_choice import is_another_job
from dsregress.advisories.upgrading import SetBefore, UpgradeAnswer, Verdict
from dsregress.model import AXES
from dsregress.probe.factor import either
from dsregress.report.advisory_words import remedy_request
from dsregress.wording.quantities import enumeration, listing, plural

_FEW_QUESTIONS = 2
_SHORT_QUESTIONS = 80  # characters
_MOST_CHANGES = 2
_MOST_UNCOVERED = 3


def upgrade_headline(answer: UpgradeAnswer, old: StatedJob, new: StatedJob) -> str:
    """Return the verdict as one line."""
    return f"{change_text(old, new)}: {_verdict_text(answer, old, new)}"


def change_text(old: StatedJob, new: StatedJob) -> str:
    """Return ``deepspeed 0.16.8 -> 0.19.8``."""
    changes = [
        f"{name} {old.versions[name]} -> {version}" if name in old.versions else f"{name} {version}"
        for name, version in sorted(new.versions.items(), key=lambda one: one[0] not in AXES)
        if old.versions.get(name) != version
    ]
    return listing(changes, _MOST_CHANGES) if changes else "the same releases"


def changed_releases(old: StatedJob, new: StatedJob) -> list[str]:
    """Return the releases that an upgrade goes to: ``deepspeed 0.19.8``."""
    return [f"{name} {version}" for name, version in new.versions.items() if old.versions.get(name) != version]


def settings_text(answer: UpgradeAnswer) -> str:
    """Return what is to be set for a yes: ``, if you use torch 2.9.1``; empty if nothing is."""
    settings = _to_set(answer.conditions)
    return f", if you {settings}" if settings else ""


def _to_set(conditions: Sequence[SetBefore], where: str = " (below)") -> str:
    remedies = [one.remedies for one in conditions if one.remedies]
    whole = next((each for each in remedies[0] if all(each in one for one in remedies)), None) if remedies[1:] else None
    settings = list(dict.fromkeys(map(_any_remedy, [(whole,)] if whole is not None else remedies)))
    if leaks := [one for one in conditions if not one.remedies]:
        settings.append(f"have the memory for {plural(len(leaks), 'leak')}{where}")
    return " and ".join(settings)


def provisos_text(answer: UpgradeAnswer) -> str:
    """Return what a yes depends on, and what it leaves open: ``, if you use torch 2.9.1, except with resumption (crashes);
    open, below: 2 more questions, 1 advisory not run``; empty if it depends on nothing."""
    questions = open_questions(answer)
    named = _named_questions(questions)
    kinds = dict.fromkeys(one.advisory.kind.value for each in named for one in each.matched)
    exceptions = f", except with {' or '.join(map(question_words, named))} ({' or '.join(kinds)})" if named else ""
    kept = f"; it does not end what the job has: {_first_title(answer.kept)}" if answer.kept else ""
    rest = len(questions) - len(named)
    left = [
        *([plural(rest, "more question" if named else "question")] if rest else []),
        *(["faults that both may have"] if _are_asked_in_both(answer) else []),
        *([_not_run_text(answer)] if answer.not_run else []),
    ]
    open_ = f"; open, below: {', '.join(left)}" if left else ""
    return f"{settings_text(answer)}{exceptions}{kept}{open_}{_about_none(answer)}"


def _named_questions(questions: Sequence[Question]) -> list[Question]:
    """Return the first of those that everybody can answer, without such that another one of them decides as well, and no
    more than one if they are long."""
    common = [one for one in questions if one.is_common]
    facts = [{condition_text(each) for each in one.conditions} for one in common]
    named = [one for one, mine in zip(common, facts, strict=True) if not any(each < mine for each in facts)]
    is_short = sum(len(question_words(one)) for one in named[:_FEW_QUESTIONS]) <= _SHORT_QUESTIONS
    return named[: _FEW_QUESTIONS if is_short else 1]


def basis_text(answer: UpgradeAnswer) -> str:
    """Return what a yes does not rest on: ``; 7 advisories not run``; empty if all of it was run."""
    return f"{f'; {_not_run_text(answer)}' if answer.not_run else ''}{_about_none(answer)}"


def _not_run_text(answer: UpgradeAnswer) -> str:
    return f"{plural(len(answer.not_run), 'advisory', 'advisories')} not run"


def _about_none(answer: UpgradeAnswer) -> str:
    """Return the packages that no advisory is about, or is known to be about, or beside which nothing was run: ``; no
    advisory is about peft for a job like this``; empty if there are none."""
    if answer.uncovered:
        return f"; {uncovered_text(answer)}"
    if answer.older_than_run:
        return f"; nothing was run with {listing(answer.older_than_run, _MOST_UNCOVERED)}"
    told = {name for one in (*answer.gained, *answer.kept) for name in one.advisory.packages}
    untold = [name for name in answer.ungrounded if name not in told]
    if untold and not answer.not_run and not open_questions(answer):
        packages = listing(untold, _MOST_UNCOVERED)
        return f"; no advisory is known to be about {packages} for a job like this"
    return ""


def uncovered_text(answer: UpgradeAnswer) -> str:
    """Return the packages of which nothing is known: ``no advisory is about peft for a job like this``."""
    return f"no advisory is about {listing(answer.uncovered, _MOST_UNCOVERED)} for a job like this"


def is_for_measuring(answer: UpgradeAnswer) -> bool:
    """Return True if the answer is no more than that nothing is known: only a measurement says more."""
    return answer.verdict is Verdict.UNKNOWN or (answer.verdict is Verdict.YES and _rests_on_less(answer))


def open_questions(answer: UpgradeAnswer) -> tuple[Question, ...]:
    """Return the questions about the job that decide the verdict."""
    usual = {one.advisory.id for one in answer.usual}  # which the verdict names
    return asked(one for one in answer.depends if decides(one.advisory) and one.advisory.id not in usual)


def question_words(question: Question) -> str:
    """Return what a question asks for: ``resumption``, ``some releases of torch``."""
    parts = [*map(condition_text, question.conditions), *(f"some releases of {name}" for name in question.packages)]
    return enumeration(parts)


def _verdict_text(answer: UpgradeAnswer, old: StatedJob, new: StatedJob) -> str:
    if answer.verdict is Verdict.NO:
        titles = [*(one.text for one in answer.conflicts), *(one.advisory.title for one in answer.against)]
        return f"no: {_first_of(titles)}; {_instead(answer, old, new)}"
    if answer.verdict is Verdict.UNKNOWN:
        settings = _to_set(answer.conditions)
        return f"{_unknown_text(answer, old, new)}{f'; in any case {settings}' if settings else ''}"
    others = f", only together with {enumeration(answer.only_with)}" if answer.only_with else ""
    return f"{_assent(answer)}{others}{provisos_text(answer)}"


def _unknown_text(answer: UpgradeAnswer, old: StatedJob, new: StatedJob) -> str:
    reasons = dict.fromkeys(reason for one in answer.unknown for reason in one.not_run)
    if answer.usual or answer.hinges:
        to = f"; {_instead(answer, old, new)}" if answer.instead or answer.staying or answer.ending else ""
        ids = {one.advisory.id for one in (*answer.usual, *answer.hinges)}
        return f"not known until the job is stated: {unstated_text(_among(answer.depends, ids))}{to}"
    what = [one for one in reasons if one in changed_releases(old, new)] or list(answer.unlisted) or list(reasons)
    return f"not known: {not_run_releases(what) if what else uncovered_text(answer)}"


def not_run_releases(releases: Sequence[str]) -> str:
    """Return ``deepspeed 0.19.99 was not run``."""
    return f"{listing(releases, 2)} {'was' if len(releases) == 1 else 'were'} not run"


def _among(found: Iterable[Matched], ids: Collection[str]) -> list[Matched]:
    return [one for one in found if one.advisory.id in ids]


def _telling_conditions(one: Matched) -> list[str]:
    """Return the conditions that were not stated, without what a job has not unless its owner knows of it."""
    told = [each for each in one.open if each.fact in COMMON_FACTS or each.shown != (False,)]
    return [*map(condition_text, told or one.open)]


def unstated_text(found: Iterable[Matched]) -> str:
    """Return what facts that were not stated bring: ``leaks with dtype fp32, crashes with dtype bf16``."""
    named = (f"{one.advisory.kind.value} with {enumeration(_telling_conditions(one))}" for one in found)
    return enumeration(list(dict.fromkeys(named)))


def _are_asked_in_both(answer: UpgradeAnswer) -> bool:
    """Return True if both releases may have a fault, and that depends on what a reader can say at once."""
    return any(one.is_common and len(one.conditions) == 1 for one in asked(answer.kept_open))


def _assent(answer: UpgradeAnswer) -> str:
    """Return ``yes`` if an advisory is about such a job and all that concerns it was run, or if something is to be set; else
    no more than is known."""
    if answer.verdict is Verdict.IF_SET or not _rests_on_less(answer):
        return "yes"
    return "no known new problem" if answer.kept else "no known problem"


def _rests_on_less(answer: UpgradeAnswer) -> bool:
    return bool(answer.not_run or answer.uncovered or answer.unlisted or answer.ungrounded or answer.older_than_run)


def _first_title(found: Sequence[Matched]) -> str:
    return _first_of([one.advisory.title for one in found])


def _first_of(titles: Sequence[str]) -> str:
    return f"{titles[0]} and {len(titles) - 1} more" if len(titles) > 1 else titles[0]


def _instead(answer: UpgradeAnswer, old: StatedJob, new: StatedJob) -> str:
    """Return where to go; another job, such as another ZeRO stage, only if there is no release."""
    beside = _beside(answer, old, new)
    if answer.instead:
        settings = _to_set(answer.instead_conditions, where="")
        release = listing([f"{name} {version}" for name, version in answer.instead.items()])
        return f"go to {release}{f' and {settings}' if settings else ''}{f', or {beside}' if beside else ''}"
    if answer.staying:
        settings = _to_set(answer.instead_conditions, where="")
        kept = enumeration([f"{name} {version}" for name, version in answer.staying.items()])
        return f"keep {kept}, the others can go{f', if you {settings}' if settings else ''}"
    if beside:
        return beside
    packages = {name for one in answer.against for name in one.advisory.packages}
    packages |= {name for one in answer.conflicts for name in (one.package, one.other)}
    stay = listing([f"{name} {version}" for name, version in old.versions.items() if name in packages])
    others = [each for one in answer.against for each in one.advisory.remedies if each.fact and is_another_job(each)]
    setting = f", or {remedy_request(others[0])}" if others and len(answer.against) == 1 else ""
    return f"no release to go to is known, stay at {stay}{setting}"


def _beside(answer: UpgradeAnswer, old: StatedJob, new: StatedJob) -> str:
    """Return the releases with which the upgrade could be installed, if nothing else is against it: ``use transformers
    4.56.2 as well``."""
    ending = answer.ending
    if (answer.against and (answer.conflicts or answer.instead)) or not ending or ending.keys() & answer.instead.keys():
        return ""
    moved = [name for name, release in ending.items() if old.versions.get(name) != release]
    if not moved:
        return f"stay at {enumeration([f'{name} {release}' for name, release in ending.items()])}"
    releases = enumeration([f"{name} {ending[name]}" for name in moved])
    stay = all(old.versions.get(name) == new.versions.get(name) for name in moved)
    return f"use {releases}{' as well' if stay else ''}"


def _any_remedy(remedies: Sequence[Remedy]) -> str:
    return either([remedy_request(one).partition(";")[0] for one in remedies[:3]])
