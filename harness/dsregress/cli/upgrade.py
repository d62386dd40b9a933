"""``upgrade``: tells, by the advisories and beside them by stored results, if the packages of a file can go to newer
releases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
from packaging.utils import canonicalize_name
from packaging.version import Version

from dsregress.advice import upgrade_judgement
from dsregress.advice.gpus import Card
from dsregress.advice.upgrade_judgement import Upgrade, UpgradeVerdict
from dsregress.advisories.advisory import Advisory
from dsregress.advisories.auditing import StatedJob, faults_of_job
from dsregress.advisories.job_facts import Fact
from dsregress.advisories.matching import known_packages
from dsregress.advisories.measured_jobs import reader_facts
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import judge_upgrade
from dsregress.cli import options
from dsregress.cli.configured_job import WHERE, completed_job, configured_packages
from dsregress.cli.ignored_advisories import heeded_advisories
from dsregress.cli.lines import print_note
from dsregress.cli.measured_changes import measure_changes
from dsregress.cli.named_cells import declared_scenario, workload_if_here
from dsregress.cli.options import JobOptions, WorkloadOptions
from dsregress.cli.output import note_problems, write_answer
from dsregress.cli.package_files import packages_of_file
from dsregress.cli.stated_jobs import (
    LATEST,
    FoundPackages,
    check_named_release,
    goal_release,
    kept_releases,
    note_unlisted,
    releases_of_goal,
    stated_job,
    uses_deepspeed,
)
from dsregress.cli.stored_results import Way, way
from dsregress.config.settings import Settings
from dsregress.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION, NothingMeasured, UsageError
from dsregress.model import AXES
from dsregress.probe.scenario import BASE_VARIANT, Scenario
from dsregress.report.answers import upgrade_answer as upgrade_report
from dsregress.report.answers import upgrade_json
from dsregress.report.answers.upgrade_answer import TogetherAnswer, UpgradeAnswers
from dsregress.run import available_workloads, pipeline, targets
from dsregress.store import Store
from dsregress.versions import installed
from dsregress.versions.declared_requirements import known_requirements, newest_together
from dsregress.versions.installed import InstalledPackages
from dsregress.wording import commands
from dsregress.wording.quantities import listing, plural
from dsregress.wording.workload_words import OPEN_LAUNCH_LINE


@click.command("upgrade")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="A requirements file, uv.lock, or the output of `pip freeze`, `pip list` or `transformers-cli env` (- for stdin): "
    "what is installed. Default: the packages of the configured job.",
)
@click.option(
    "--to",
    "wanted",
    multiple=True,
    metavar="latest|VERSION|NAME==VERSION|FILE",
    help="The version to upgrade to, of deepspeed or of the named package, or a file with the versions of several. "
    "Repeatable; packages that are not named stay. Default: the latest of each package.",
)
@click.option("--scenario", metavar="NAME", help="Your kind of training. Default: all stored results.")
@click.option(
    "--measure",
    is_flag=True,
    help="Measure the upgrade as a whole on --program or --scenario, and if it is worse, find the packages that make it so.",
)
@options.job_options
@options.results_option
@options.json_option
def upgrade_command(
    source: str | None,
    wanted: tuple[str, ...],
    scenario: str | None,
    measure: bool,
    job: JobOptions,
    results: str | None,
    json_file: str | None,
) -> int:
    """Say for each package in FILE whether it can be upgraded, and if not, what to set or which release to use.

    The verdict is that of `audit`: of the advisories that concern the job, which is stated as there. Below it is what was
    measured here: the problems in stored results that the new release has and the installed one does not, which decide for
    a package that no advisory is about. Each package is judged by itself, and if several change, all of them together by the
    advisories. For a package without results, it prints the
    command that measures it. Runs nothing, unless --measure is given: then the old and the new packages are measured as
    they go together.

    \b
    Exit codes: 0 every package can be upgraded; 1 a setting must change, or an upgrade is ruled out; 4 something is not
    measured.

    \b
    Examples:
      dsregress upgrade --from requirements.txt
      dsregress upgrade --from uv.lock --to 0.19.8 --scenario llama3_70b_zero3 --gpu A800-80G
      pip freeze | dsregress upgrade --from -
      dsregress upgrade --from old.txt --to new.txt --program 'python train.py' --measure
    """
    settings = options.load_settings(results=results)
    job = completed_job(job, settings) if scenario is None else job
    is_named = scenario is not None or job.program is not None
    if measure and not is_named:
        raise UsageError("needs a job to measure", where="--measure", hint="add --program 'LINE' or --scenario NAME")
    declared = None
    if is_named:
        scenario, declared = _workload(scenario, job, settings, is_needed=measure)
    source, found = _installed(source, settings)
    store = Store(settings.results)
    known = [
        name
        for name in store.stack_ids()
        if not is_named or (scenario is not None and next(store.files([name], scenario), None) is not None)
    ]
    under_test = targets.varied_package(settings)
    packages = list(dict.fromkeys([under_test, *settings.stack, *AXES, *sorted(known_packages(read_advisories()))]))
    mine = [package for package in packages if package in found.versions]
    movable = [
        *mine,
        *(package for package in known_requirements() if package in found.versions and package not in mine),
    ]
    if not mine:
        raise _nothing_known(source, packages, found)
    movable_found = msgspec.structs.replace(found, versions={package: found.versions[package] for package in movable})
    goals = _goals(wanted, under_test, movable_found, source)
    named = {canonicalize_name(text.partition("==")[0].strip()) for text in wanted}
    ways = {
        package: way(package, found.versions, goal, known)
        for package, goal in goals.items()
        if package in mine or package in named  # others move with these
    }
    evidence = _StoredEvidence(store=store, settings=settings, scenario=scenario, card=job.card)
    upgrades = [
        _judge_upgrade(evidence, package, found.versions[package], goals[package], one) for package, one in ways.items()
    ]
    unchecked = _unchecked(upgrades, packages, found)
    stated = []
    if declared is not None and job.program is None:  # a program's line states its facts
        stated = _facts_of_scenario(str(scenario), declared, upgrades)
    mine_stated = stated_job(job, FoundPackages([found], read_advisories(), source), stated)
    of_scenarios = {*AXES} if uses_deepspeed(mine_stated) else set()
    installed_here = {package: found.versions[package] for package in mine}
    missing = {
        one.package: _measuring_command(
            one, under_test, scenario, is_own=not is_named and one.package not in of_scenarios, installed=installed_here
        )
        for one in upgrades
        if one.verdict is UpgradeVerdict.UNKNOWN
    }
    advisories = heeded_advisories(settings)
    changing = {one: goal for one, goal in goals.items() if goal not in (LATEST, found.versions[one])}
    answers = _upgrade_answers(advisories, mine_stated, upgrades, is_named=is_named, together=changing)
    together = _together(advisories, mine_stated, answers, changing)
    write_answer(
        lambda: upgrade_report.upgrades_text(answers, together, missing, found.versions, unchecked),
        (json_file, lambda: upgrade_json.upgrades_json(answers, together, missing, unchecked)),
    )
    if measure:
        workload = WorkloadOptions(scenario=None if job.program else scenario, variant=BASE_VARIANT, device=None)
        return measure_changes(settings, installed_here, goals, workload, job.program)
    return exit_code_of_upgrades(answers, together)


def _workload(
    scenario: str | None, job: JobOptions, settings: Settings, *, is_needed: bool
) -> tuple[str | None, Scenario | None]:
    """Return the workload whose results count, and its declaration; None for a program that is not here, unless it is to be
    measured. Raise UsageError."""
    if is_needed:
        name: str | None = available_workloads.measured_workload(scenario, job.program, settings)
    else:
        name = workload_if_here(scenario, job.program, settings, "no results of it are looked up")
    if name is None:
        return None, None
    return name, declared_scenario(settings, name)


def exit_code_of_upgrades(answers: Iterable[UpgradeAnswers], together: TogetherAnswer | None = None) -> int:
    """Return the exit code that the command's help describes. Of packages that go together, the advisories decide by the
    verdict on all of them, whatever each alone would have."""
    answers = list(answers)
    if any(one.concerned for one in answers):
        return EXIT_REGRESSION
    verdicts = {verdict.name for one in answers for verdict in one.measured_deciding}
    if together is not None:  # which has a word for packages of which nothing is known
        verdicts.discard(UpgradeVerdict.UNKNOWN.name)
    advised = [one.advised for one in answers if one.advised is not None] if together is None else [together.advised]
    verdicts |= {one.verdict.name for one in advised}
    if verdicts & {UpgradeVerdict.NO.name, UpgradeVerdict.IF_SET.name}:
        return EXIT_REGRESSION
    return EXIT_NOTHING_MEASURED if UpgradeVerdict.UNKNOWN.name in verdicts else EXIT_OK


def _upgrade_answers(
    advisories: Sequence[Advisory],
    job: StatedJob,
    upgrades: Iterable[Upgrade],
    *,
    is_named: bool,
    together: Mapping[str, str],
) -> list[UpgradeAnswers]:
    """Return the answers for each package: of the advisories, if they are about it or it cannot be installed, and of what
    was measured. ``together`` are all packages that change."""
    found = []
    faults = () if together else faults_of_job(advisories, job.job)
    for one in upgrades:
        answer, new = None, job
        concerned = tuple(each for each in faults if one.package in each.advisory.packages)
        if one.package in together:
            new = job.going_to({one.package: one.target})
            answer = judge_upgrade(advisories, job.job, new.job, together)
            if one.package not in known_packages(advisories) and not answer.conflicts:
                answer, new = None, job
        found.append(
            UpgradeAnswers(measured=one, is_named=is_named, advised=answer, concerned=concerned, old=job, new=new)
        )
    return found


def _together(
    advisories: Sequence[Advisory], job: StatedJob, answers: Sequence[UpgradeAnswers], goals: Mapping[str, str]
) -> TogetherAnswer | None:
    """Return the answer for all packages that change; None if that is one, or if the advisories are about none of them."""
    if len(goals) < 2 or all(one.advised is None for one in answers):
        return None
    new = job.going_to(goals)
    return TogetherAnswer(advised=judge_upgrade(advisories, job.job, new.job), old=job, new=new)


def _facts_of_scenario(name: str, scenario: Scenario, upgrades: Iterable[Upgrade]) -> list[Fact]:
    """Return the facts of a scenario's job that all its measured workloads share; if none is measured, all its variants.
    They give way to what the reader states of a job of that kind."""
    measured = [
        reader_facts(workload, parameters)
        for one in upgrades
        if one.comparison is not None
        for workload, parameters in one.comparison.parameters.items()
    ]
    jobs = measured or [
        reader_facts(f"{name}/{BASE_VARIANT}/{next(iter(scenario.devices))}", {**scenario.parameters, **changes})
        for changes in scenario.variants
    ]
    return [
        Fact(name=fact, value=value, source=f"scenario {name}", yields=True)
        for fact, value in jobs[0].items()
        if all(job.get(fact, jobs) == value for job in jobs)
    ]


def _installed(source: str | None, settings: Settings) -> tuple[str, InstalledPackages]:
    """Return the installed packages, and their source by name: the file, or what is configured. Raise UsageError."""
    if source is not None:
        return source, packages_of_file(source)
    configured = configured_packages(settings)
    if not configured:
        raise UsageError("no packages", where="command line", hint=f"give --from FILE, or configure {WHERE}")
    return " ".join(file for file, _ in configured), installed.merged_packages(found for _, found in configured)


def _nothing_known(source: str, packages: Sequence[str], found: InstalledPackages) -> NothingMeasured:
    unknown = [f"{package} ({found.unknown[package]})" for package in packages if package in found.unknown]
    what = (
        f"does not pin the installed release of {listing(unknown)}" if unknown else f"has none of {', '.join(packages)}"
    )
    return NothingMeasured(what, where=source, hint="use the output of `pip freeze`")


def _goals(wanted: Sequence[str], under_test: str, found: InstalledPackages, source: str) -> dict[str, str]:
    """Return package -> the version to go to, for the packages that are installed; `LATEST` if no release of it is known.
    The latest releases are the newest that go together. Raise UsageError."""
    mine = found.versions
    specs: dict[str, str] = {}
    for text in wanted or (LATEST,):
        name, equals, version = (part.strip() for part in text.partition("=="))
        if text == LATEST:
            specs = {**dict.fromkeys(mine, LATEST), **specs}
            continue
        if Path(text).is_file():
            theirs = releases_of_goal(text, packages_of_file(text), mine, found.ranges)
            specs |= {one: theirs[one] for one in mine if one in theirs}
            continue
        check_named_release(text, mine)
        package = str(canonicalize_name(name)) if equals else under_test
        if package not in mine:
            hint = f"it pins {', '.join(mine)}; `pip freeze > installed.txt` prints the pins of an environment"
            raise UsageError(f"{source} has no release of {package}", where="--to", hint=hint)
        goal = version if equals else name
        if specs.get(package, LATEST) not in (LATEST, goal):
            what = f"two releases of {package}: {specs[package]} and {goal}"
            raise UsageError(what, where="--to", hint="name one of them")
        specs[package] = goal
    goals = {package: _goal_release(package, specs[package]) for package in mine if package in specs}
    latest = {package for package, version in goals.items() if specs[package] == LATEST and version != LATEST}
    unknown = {package: goal for package, goal in goals.items() if goal == LATEST}
    known = {one: goal for one, goal in goals.items() if one not in unknown}
    together, conflicts = newest_together(mine, known, latest, found.ranges)
    for one in conflicts:
        print_note(f"not the latest of each: {one.text}")
    note_unlisted(mine, mine.keys())
    note_unlisted({one: goal for one, goal in together.items() if goals.get(one) != mine.get(one)}, goals.keys())
    return {package: together.get(package, LATEST) for package in goals}


def _goal_release(package: str, spec: str) -> str:
    return goal_release(package, spec, hint="write e.g. 0.16.8 or latest") or LATEST


@dataclass(frozen=True, kw_only=True)
class _StoredEvidence:
    """The stored results that upgrades are judged by."""

    store: Store
    settings: Settings
    scenario: str | None  #: None: all
    card: Card | None  #: None: each scenario's


def _judge_upgrade(evidence: _StoredEvidence, package: str, version: str, goal: str, found: Way | None) -> Upgrade:
    """Judge the upgrade of a package from ``version`` to ``goal``, on the way that results were ``found`` for."""
    if goal != LATEST and Version(goal) == Version(version):
        return upgrade_judgement.stays(package, version)
    if found is None:
        return upgrade_judgement.unknown(
            package, version, goal, "no results of both releases with the same other packages"
        )
    problems: list[str] = []
    comparison = pipeline.compare_stored(
        [evidence.store], found.installed, evidence.settings, problems.append, found.stacks, evidence.scenario
    )
    note_problems(problems)
    if not {found.installed, found.target} <= comparison.names.keys():
        return upgrade_judgement.unknown(package, version, goal, "its stored results cannot be read")
    return upgrade_judgement.judge_upgrade(comparison, package, found.target, evidence.card)


def _measuring_command(
    one: Upgrade, under_test: str, scenario: str | None, *, is_own: bool, installed: Mapping[str, str]
) -> str:
    """Return the command that measures the way of one package, beside the other ones that are ``installed``: on a program of
    the user if no scenario stands for the job."""
    baseline = one.installed if one.package == under_test else f"{one.package}=={one.installed}"
    releases = {one.package: [one.installed, one.target], **kept_releases(installed, (one.package,))}
    return commands.regress(
        releases=releases, baseline=baseline, scenario=scenario or "", program=OPEN_LAUNCH_LINE if is_own else ""
    )


def _unchecked(upgrades: Sequence[Upgrade], packages: Sequence[str], found: InstalledPackages) -> list[str]:
    parts = []
    if sum(one.target != one.installed for one in upgrades) > 1:
        parts.append("several upgrades at once, in results")
    answered = {one.package for one in upgrades}
    if staying := [package for package in packages if package in found.versions and package not in answered]:
        parts.append(f"{', '.join(staying)}, which have no target version")
    parts += [f"{package} ({found.unknown[package]})" for package in packages if package in found.unknown]
    if others := len((found.versions.keys() | found.unknown.keys()) - set(packages)):
        parts.append(plural(others, "other package"))
    return [*parts, *found.unread]
