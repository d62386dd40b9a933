"""The verdict on an upgrade as one line: the answer, what it depends on, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.advisories.advisory import Remedy
from dsregress.advisories.auditing import Question, StatedJob, asked
from dsregress.advisories.matching import Matched, condition_text, packages_of_advisory
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict, decides, ends_the_job, is_another_job
from dsregress.model import AXES
from dsregress.probe.factor import either
from dsregress.report.advisory_words import remedy_request
from dsregress.wording.quantities import enumeration, listing, plural

_FEW_QUESTIONS = 2
_MOST_CHANGES = 5
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
    settings = list(dict.fromkeys(_any_remedy(one.remedies) for one in answer.conditions if one.remedies))
    if leaks := [one for one in answer.conditions if not one.remedies]:
        settings.append(f"have the memory for {plural(len(leaks), 'leak')} (below)")
    return f", if you {' and '.join(settings)}" if settings else ""


def provisos_text(answer: UpgradeAnswer) -> str:
    """Return what a yes depends on: ``, if you use torch 2.9.1, except with resumption``; empty if it depends on nothing."""
    verdict = settings_text(answer)
    questions = open_questions(answer)
    if not questions:
        return verdict
    common = [one for one in questions if one.is_common]
    if not common:
        return f"{verdict}, as far as the job is stated ({plural(len(questions), 'question')} below)"
    named = common[:_FEW_QUESTIONS]
    kinds = dict.fromkeys(one.advisory.kind.value for each in named for one in each.matched)
    rest = len(questions) - len(named)
    more = [" or ".join(kinds), *([f"{plural(rest, 'more question')} below"] if rest else [])]
    return f"{verdict}, except with {' or '.join(map(question_words, named))} ({'; '.join(more)})"


def basis_text(answer: UpgradeAnswer, releases: Sequence[str]) -> str:
    """Return what a yes does not rest on: ``; 7 advisories were not run with deepspeed 0.19.8``; empty if all of it was run.
    ``releases`` are those that the job goes to."""
    parts = []
    if answer.not_run:
        reasons = {reason for one in answer.not_run for reason in one.not_run}
        named = [one for one in releases if one in reasons]
        is_of_releases = all(set(one.not_run) & set(named) for one in answer.not_run)
        what = either(named) if is_of_releases else "these releases and settings"
        parts.append(f"{plural(len(answer.not_run), 'advisory was', 'advisories were')} not run with {what}")
    if answer.uncovered:
        parts.append(uncovered_text(answer))
    if answer.ungrounded and not parts and not open_questions(answer):
        packages = listing(answer.ungrounded, _MOST_UNCOVERED)
        parts.append(f"no advisory is known to be about {packages} for a job like this")
    return "".join(f"; {one}" for one in parts)


def uncovered_text(answer: UpgradeAnswer) -> str:
    """Return the packages of which nothing is known: ``no advisory is about peft for a job like this``."""
    return f"no advisory is about {listing(answer.uncovered, _MOST_UNCOVERED)} for a job like this"


def is_for_measuring(answer: UpgradeAnswer) -> bool:
    """Return True if the answer is no more than that nothing is known: only a measurement says more."""
    rests_on_nothing = bool(answer.not_run or answer.uncovered or answer.ungrounded)
    return answer.verdict is Verdict.UNKNOWN or (answer.verdict is Verdict.YES and rests_on_nothing)


def open_questions(answer: UpgradeAnswer) -> tuple[Question, ...]:
    """Return the questions about the job that decide the verdict."""
    return asked(one for one in answer.depends if decides(one.advisory))


def question_words(question: Question) -> str:
    """Return what a question asks for: ``resumption``, ``some releases of torch``."""
    parts = [*map(condition_text, question.conditions), *(f"some releases of {name}" for name in question.packages)]
    return enumeration(parts)


def _verdict_text(answer: UpgradeAnswer, old: StatedJob, new: StatedJob) -> str:
    if answer.verdict is Verdict.NO:
        return f"no: {_first_title(answer.against)}; {_instead(answer, old)}"
    if answer.verdict is Verdict.UNKNOWN:
        reasons = dict.fromkeys(reason for one in answer.unknown for reason in one.not_run)
        if answer.hinges:
            return f"not known until the job is stated: {_hinges_text(answer)}"
        if not reasons:
            return f"not known: {uncovered_text(answer)}"
        what = [one for one in reasons if one in changed_releases(old, new)] or list(reasons)
        return f"not known: {listing(what, 2)} {'was' if len(what) == 1 else 'were'} not run"
    basis = basis_text(answer, changed_releases(old, new))
    kept = f"; it does not end what the job has: {_first_title(answer.kept)}" if answer.kept else ""
    return f"{_assent(answer, basis)}{provisos_text(answer)}{kept}{_both_text(answer)}{basis}"


def _hinges_text(answer: UpgradeAnswer) -> str:
    """Return what each value of a fact that was not stated brings: ``leaks with dtype fp32, crashes with dtype bf16``."""
    named = (f"{one.advisory.kind.value} with {condition_text(one.open[0])}" for one in answer.hinges)
    return enumeration(list(dict.fromkeys(named)))


def _both_text(answer: UpgradeAnswer) -> str:
    """Return what both releases may have, if that depends on what a reader can say at once; else empty."""
    simple = [one for one in asked(answer.kept_open) if one.is_common and len(one.conditions) == 1]
    ends = {ends_the_job(each.advisory) for one in simple for each in one.matched}
    may = " or ".join((["fail"] if True in ends else []) + (["go wrong"] if False in ends else []))
    return f"; in both it may {may}, by what was not stated (below)" if may else ""


def _assent(answer: UpgradeAnswer, basis: str) -> str:
    """Return ``yes`` if an advisory is about such a job and all that concerns it was run, or if something is to be set; else
    no more than is known."""
    if answer.verdict is Verdict.IF_SET or not (basis or answer.ungrounded):
        return "yes"
    return "no known new problem" if answer.kept else "no known problem"


def _first_title(found: Sequence[Matched]) -> str:
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{found[0].advisory.title}{more}"


def _instead(answer: UpgradeAnswer, old: StatedJob) -> str:
    """Return where to go; another job, such as another ZeRO stage, only if there is no release."""
    if answer.instead:
        return f"go to {listing([f'{name} {version}' for name, version in answer.instead.items()])}"
    packages = {name for one in answer.against for name in packages_of_advisory(one.advisory)}
    stay = listing([f"{name} {version}" for name, version in old.versions.items() if name in packages])
    others = [each for one in answer.against for each in one.advisory.remedies if each.fact and is_another_job(each)]
    setting = f", or {remedy_request(others[0])}" if others and len(answer.against) == 1 else ""
    return f"no release to go to is known, stay at {stay}{setting}"


def _any_remedy(remedies: Sequence[Remedy]) -> str:
    return either([remedy_request(one).partition(";")[0] for one in remedies[:3]])
