"""The records, made of what exists: answers of `reproduce`, scripts by hand, published results, and upstream's addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import msgspec
from packaging.version import Version

from dsregress.advisories import matching
from dsregress.advisories.advisory import (
    Advisory,
    Evidence,
    FactCondition,
    PartnerCondition,
    ReleaseRange,
    Remedy,
    Ruling,
    ScriptOutput,
    UpstreamLinks,
)
from dsregress.advisories.job_facts import FACTS, OneOf
from dsregress.advisories.matching import is_affected
from dsregress.model import Verdict
from dsregress.probe.factor import among
from dsregress.probe.factors import BY_NAME
from dsregress.report.stored_answers import StoredCondition, StoredReproduction
from dsregress.reproduce import upstream
from dsregress.reproduce.upstream import UpstreamProblem
from tests.unit.advisories.published import Shown, problems_shown
from tests.unit.advisories.stored import symptoms_of
from tests.unit.advisories.table import Entry
from tests.unit.docs import reproducer_page

#: Factors of which one value was tried that stands for every other than the simplest, with their words.
_PRESENCE = {
    "lora_rank": "adapters",
    "frozen": "frozen parts",
    "lora_modules_to_save": "modules that are trained whole beside adapters",
    "hpz_partition_size": "hpZ",
    "infinite_gradient_step": "a gradient that is not finite",
}

_STAGE = "zero_stage"

#: Facts that a configuration states, whose untried values are no reason to call a job free or concerned.
_CONFIGURED = ("zero_stage", "dtype", "world_size", "gradient_accumulation_steps", "offload_optimizer", "offload_param")


def made(entry: Entry) -> Advisory:
    """Return the record of an entry."""
    scripts = [reproducer_page.answers()[name] for name in entry.scripts]
    conditions = _conditions(entry, scripts)
    shown = [one for one in problems_shown() if is_of(one, entry)]
    ranges = entry.ranges or (_range(entry, scripts, shown, conditions),)
    known = _known_upstream(entry, scripts)
    return Advisory(
        id=entry.id,
        title=entry.title or _titles(entry)[0],
        kind=entry.kind,
        ruling=entry.ruling,
        ranges=ranges,
        conditions=conditions,
        partners=entry.partners,
        in_some_jobs=entry.in_some_jobs,
        raises=entry.raises,
        shown_by=symptoms_of(entry),
        sees=entry.sees,
        detail=entry.detail or " ".join(_details(entry)),
        size=entry.size,
        remedies=(
            *_release_remedies(ranges),
            *_settings(scripts, conditions),
            *entry.remedies,
            *_release_remedies(entry.partners),
        ),
        evidence=_evidence(entry, scripts, shown, ranges),
        references=_references(entry, known, shown),
        published=entry.published,
        modified=entry.modified or entry.published,
        withdrawn=entry.withdrawn,
    )


def is_of(one: Shown, entry: Entry) -> bool:
    """Return True if an entry names the source of a problem."""
    return (
        (bool(one.script) and one.script in (*entry.scripts, entry.rest_of))
        or (bool(one.by_hand) and one.by_hand in entry.by_hand)
        or (bool(entry.untestable) and entry.untestable in one.message)
    )


# Conditions


def _conditions(entry: Entry, scripts: Sequence[StoredReproduction]) -> tuple[FactCondition, ...]:
    """Return the conditions of the scripts, of several those that all need, and those that the table adds."""
    parts = [{one.fact: one for one in _script_conditions(script)} for script in scripts]
    shared = [fact for fact in (parts[0] if parts else ()) if all(fact in part for part in parts)]
    joined = [_joined([part[fact] for part in parts]) for fact in shared]
    further = {one.fact: _worded(one) for one in entry.further_conditions}
    own = [one for one in joined if one.fact not in (*entry.drops, *further) and one.shown]
    return (*own, *further.values())


def _script_conditions(script: StoredReproduction) -> Iterator[FactCondition]:
    needed = [one.factor for one in script.needs]
    yield from (_condition(one) for one in script.needs if one.factor in BY_NAME)
    if not script.needs:
        for name, value in reproducer_page.smallest_values(script).items():
            hidden = () if name == _STAGE else (BY_NAME[name].simplest,)  # each stage is different code
            unknown = tuple(one for one in BY_NAME[_STAGE].values if one != value) if name == _STAGE else ()
            yield _condition(StoredCondition(factor=name, shown=(value,), hidden=hidden, unknown=unknown))
    yield from (
        _condition(one)
        for one in script.not_known
        if one.factor in _CONFIGURED and one.factor not in needed and one.unknown
    )


def _condition(one: StoredCondition) -> FactCondition:
    factor = BY_NAME[one.factor]
    stands = one.factor in _PRESENCE and set(one.hidden) == {factor.simplest}
    follows = factor.counted and one.hidden and min(one.shown) == max(one.hidden) + 1
    above = max(one.hidden) if follows else factor.limit(one.shown, one.hidden)
    text = _PRESENCE[one.factor] if stands else factor.text(one.shown, one.hidden)
    return FactCondition(
        fact=one.factor,
        shown=one.shown,
        hidden=one.hidden,
        unknown=one.unknown,
        above=above,
        others=stands,
        text=text
        if above is None
        else "several ranks"
        if one.factor == "world_size"
        else f"{factor.title} above {above}",
    )


def _joined(parts: Sequence[FactCondition]) -> FactCondition:
    """Return the condition that holds if one of the parts does."""
    first, *rest = parts
    if not rest or all(one == first for one in rest):
        return first
    shown = _unique(value for one in parts for value in one.shown)
    hidden = [value for value in _unique(first.hidden) if all(among(value, one.hidden) for one in rest)]
    hidden = [value for value in hidden if not among(value, shown)]
    values = _unique(value for one in parts for value in (*one.hidden, *one.unknown))
    unknown = [value for value in values if not among(value, (*shown, *hidden))]
    return _worded(FactCondition(fact=first.fact, shown=tuple(shown), hidden=tuple(hidden), unknown=tuple(unknown)))


def _unique(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not among(value, found):
            found.append(value)
    return found


def _worded(one: FactCondition) -> FactCondition:
    if one.text:
        return one
    return msgspec.structs.replace(one, text=FACTS[one.fact].text(one.shown, one.hidden))


# Releases


def _range(
    entry: Entry, scripts: Sequence[StoredReproduction], shown: Sequence[Shown], conditions: tuple[FactCondition, ...]
) -> ReleaseRange:
    """Return the releases that a script or a cell was run in, by what it said."""
    if len(scripts) > 1:
        own = {script.name: [one for one in shown if one.script == script.name] for script in scripts}
        parts = [_verdicts(_answers(one), _cells(entry.package, one, own[one.name], ())) for one in scripts]
        return _of_any(entry.package, parts)
    if entry.rest_of:
        return _release_range(entry.package, _rest(entry, shown, conditions))
    answers = _answers(scripts[0]) if scripts else _by_hand_answers(entry)
    answers |= {**dict.fromkeys(entry.also_affected, True), **dict.fromkeys(entry.right_in, False)}
    cells = _cells(entry.package, scripts[0] if scripts else None, shown, conditions)
    return _release_range(entry.package, _verdicts(answers, cells))


def _rest(entry: Entry, shown: Sequence[Shown], conditions: tuple[FactCondition, ...]) -> dict[str, bool]:
    """Return what jobs say of releases in which the script of another advisory does not show its problem."""
    script = reproducer_page.answers()[entry.rest_of]
    own = _verdicts(_answers(script), _cells(entry.package, script, shown, conditions))
    cells = _cells(entry.package, None, shown, conditions)
    return {release: is_worse for release, is_worse in cells.items() if not own.get(release)}


def _answers(script: StoredReproduction) -> dict[str, bool]:
    """Return, of each release that a script was run in, True if it shows the problem."""
    return {one: answer is Verdict.BAD for one, answer in script.answers.items() if answer is not Verdict.UNKNOWN}


def _by_hand_answers(entry: Entry) -> dict[str, bool]:
    runs = [run for name in entry.by_hand for run in reproducer_page.by_hand()[name].runs]
    return {release: bool(run.exit_code) is not entry.is_of_the_passing for run in runs for release in run.releases}


def _cells(
    package: str,
    script: StoredReproduction | None,
    shown: Sequence[Shown],
    conditions: tuple[FactCondition, ...],
) -> dict[str, bool]:
    """Return the same of the measured jobs that meet the conditions."""
    found: dict[str, bool] = {}
    for one in script.releases if script is not None and script.package == package else ():
        if one.answer is not Verdict.UNKNOWN:
            found[one.version] = one.answer is Verdict.BAD
    own = [on for one in shown if not (one.is_cost and one.in_part) for on in one.on if _meets(conditions, on.facts)]
    for version in (versions[package] for on in own for versions in on.free if package in versions):
        found.setdefault(version, False)
    for version in (versions[package] for on in own for versions in on.having if package in versions):
        found[version] = True
    return found


def _meets(conditions: tuple[FactCondition, ...], facts: Mapping[str, Any]) -> bool:
    """Return True unless the facts rule a condition out, or it was not tried with them."""
    return all(matching.condition_shows(one, facts[one.fact]) is True for one in conditions if _is_plain(one, facts))


def _is_plain(one: FactCondition, facts: Mapping[str, Any]) -> bool:
    return one.fact in facts and not isinstance(facts[one.fact], OneOf)


def _verdicts(answers: Mapping[str, bool], cells: Mapping[str, bool]) -> dict[str, bool]:
    """Join both. A script is about its problem alone, so it counts where they differ; cells that are worse between, or
    beyond, releases in which the script passes have another problem."""
    found = dict(answers)
    ran = sorted(answers, key=Version)
    for release, is_worse in cells.items():
        older = next((answers[one] for one in reversed(ran) if Version(one) < Version(release)), None)
        newer = next((answers[one] for one in ran if Version(one) > Version(release)), None)
        if not is_worse or True in (older, newer) or not ran:
            found.setdefault(release, is_worse)
    return found


def _of_any(package: str, parts: Sequence[Mapping[str, bool]]) -> ReleaseRange:
    """Return the releases in which one of the parts shows it, and those in which none does, of the parts that were run in
    older and in newer ones."""
    found: dict[str, bool] = {}
    for release in {release for part in parts for release in part}:
        if any(part.get(release) for part in parts):
            found[release] = True
        elif all(_is_free(part, release) for part in parts):
            found[release] = False
    return _release_range(package, found)


def _is_free(part: Mapping[str, bool], release: str) -> bool:
    """Return True if a release is free of a part by the nearest ones that were run, or lies beyond them."""
    ran, wanted = sorted(map(Version, part)), Version(release)
    one = _release_range("", part)
    return not ran[0] <= wanted <= ran[-1] or is_affected(release, one.affected, one.unaffected) is False


def _release_range(package: str, found: Mapping[str, bool]) -> ReleaseRange:
    order = sorted(found, key=Version)
    return ReleaseRange(
        package=package,
        affected=tuple(one for one in order if found[one]),
        unaffected=tuple(one for one in order if not found[one]),
    )


# Remedies


def _release_remedies(ranges: Sequence[ReleaseRange | PartnerCondition]) -> Iterator[Remedy]:
    """Yield the first release after the last affected one that was run without it, and the last one before the first."""
    for one in ranges:
        if not one.affected:
            continue
        first, last = Version(one.affected[0]), Version(one.affected[-1])
        after = next((release for release in one.unaffected if Version(release) > last), "")
        before = next((release for release in reversed(one.unaffected) if Version(release) < first), "")
        if after:
            yield Remedy(text=f"use {one.package} {after}", package=one.package, version=after)
        if before:
            yield Remedy(text=f"use {one.package} {before}", package=one.package, version=before)


def with_sound_releases(made: Mapping[str, Advisory]) -> dict[str, Advisory]:
    """Return the records without releases to use that are alone in having another fault, between two that have not: nobody
    is sent to those. The nearest release on that side which was run takes the place."""
    skipped = {
        (each.package, each.affected[0])
        for one in made.values()
        if one.ruling is Ruling.FAULT and not one.withdrawn
        for each in one.ranges
        if len(each.affected) == 1 and _is_between(each.affected[0], each.unaffected)
    }
    return {name: msgspec.structs.replace(one, remedies=tuple(_sound(one, skipped))) for name, one in made.items()}


def _is_between(release: str, others: Sequence[str]) -> bool:
    sides = {Version(one) < Version(release) for one in others}
    return len(sides) == 2


def _sound(advisory: Advisory, skipped: Set[tuple[str, str]]) -> Iterator[Remedy]:
    for remedy in advisory.remedies:
        if (remedy.package, remedy.version) not in skipped:
            yield remedy
            continue
        own = next(one for one in (*advisory.ranges, *advisory.partners) if remedy.version in one.unaffected)
        is_older = Version(remedy.version) < Version(own.affected[0])
        side = [one for one in own.unaffected if (Version(one) < Version(remedy.version)) == is_older]
        free = [one for one in side if one != remedy.version and (own.package, one) not in skipped]
        if free:
            nearest = free[-1] if is_older else free[0]
            yield Remedy(text=f"use {own.package} {nearest}", package=own.package, version=nearest)


def _settings(scripts: Sequence[StoredReproduction], conditions: Sequence[FactCondition]) -> Iterator[Remedy]:
    """Yield the settings with which a script passes."""
    facts = [one.fact for one in conditions]
    for script in scripts:
        for one in script.remedies:
            setting = script.setting_of(one)
            if one.answer is Verdict.GOOD and setting is not None and setting[0] in facts:
                fact, value = setting
                yield Remedy(text=one.text, fact=fact, value=value, ran_in=(one.version,))


# Words


def _titles(entry: Entry) -> list[str]:
    known = reproducer_page.known()
    titles = [known.titles[name].title for name in entry.scripts if name in known.titles]
    return [*titles, *(one.problem for one in _without_script(entry))]


def _details(entry: Entry) -> Iterator[str]:
    known = reproducer_page.known()
    yield from (known.titles[name].what for name in entry.scripts if name in known.titles and known.titles[name].what)
    if entry.run:
        return
    yield from (_sentence(one.reason) for one in _without_script(entry))


def _without_script(entry: Entry) -> list[Any]:
    files = [f"{name}.py" for name in entry.by_hand] if not entry.scripts else []
    return [one for one in reproducer_page.known().without_script if one.by_hand in files and one.by_hand]


def _sentence(text: str) -> str:
    """Return a reason without its first words, which say why there is no script."""
    text = re.sub(r"^`reproduce` writes [^.]*\. ", "", text)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


# Evidence


def _evidence(
    entry: Entry,
    scripts: Sequence[StoredReproduction],
    shown: Sequence[Shown],
    ranges: Sequence[ReleaseRange],
) -> Evidence:
    affected = {(one.package, release) for one in ranges for release in one.affected}
    cells = [
        (one.bundle, each.workload, versions)
        for one in shown
        for each in one.on
        for versions in each.having
        if not affected.isdisjoint(versions.items())
    ]
    devices = tuple(sorted({workload.rpartition("/")[2] for _, workload, _ in cells}))
    runs = [run for one in scripts for run in _script_runs(one)] if len(scripts) < 2 else []
    files = [f"{name}.py" for name in entry.scripts] + [f"by_hand/{name}.py" for name in entry.by_hand]
    runs += [
        ScriptOutput(releases=run.releases, exit_code=run.exit_code, line=run.line)
        for name in entry.by_hand
        if not entry.scripts
        for run in reproducer_page.by_hand()[name].runs
    ]
    return Evidence(
        script=files[0] if files else "",
        further_scripts=tuple(files[1:]),
        runs=tuple(runs),
        reason=entry.run,
        bundles=tuple(dict.fromkeys(bundle for bundle, *_ in cells)),
        cells=len(cells),
        devices=devices,
        stack=_stack(entry.package, scripts, [versions for *_, versions in cells]),
    )


def _script_runs(script: StoredReproduction) -> Iterator[ScriptOutput]:
    for run in script.runs:
        yield ScriptOutput(releases=(run.version,), exit_code=run.exit_code, line=run.line)
    for one in script.further:
        yield ScriptOutput(releases=one.releases, exit_code=one.exit_code, line=one.line)


def _stack(package: str, scripts: Sequence[StoredReproduction], having: Sequence[Mapping[str, str]]) -> str:
    """Return the other packages with which it was seen, if they were the same each time."""
    named = [dict(re.findall(r"-([a-z]+)([0-9][^-/]*)", script.cell.partition("/")[0])) for script in scripts]
    others = {
        tuple(sorted((name, version) for name, version in versions.items() if name != package))
        for versions in (*having, *named)
    }
    return ", ".join(f"{name} {version}" for name, version in others.pop()) if len(others) == 1 else ""


# Upstream


def _known_upstream(entry: Entry, scripts: Sequence[StoredReproduction]) -> list[UpstreamProblem]:
    if entry.upstream is not None:
        return [one for one in upstream.known() if one.what == entry.upstream]
    found = []
    for script in scripts:
        parameters = reproducer_page.all_values(script)
        known = upstream.problem_of(script.package, script.bad, script.question, parameters)
        found += [known] if known is not None else []
    return found


def _references(entry: Entry, known: Sequence[UpstreamProblem], shown: Sequence[Shown]) -> UpstreamLinks:
    own = entry.references
    changes = {
        "introduced": [change.pull_url for one in shown for change in one.began if change.pull_url],
        "fixed": [change.pull_url for one in shown for change in one.ended if change.pull_url],
    }
    found = {
        field: _unique(
            [*getattr(own, field), *(url for one in known for url in getattr(one, field)), *changes.get(field, [])]
        )
        for field in ("reported", "introduced", "fixed", "related")
    }
    days = [own.looked_up, *(one.looked_up for one in known)]
    return UpstreamLinks(**{field: tuple(urls) for field, urls in found.items()}, looked_up=max(days))
