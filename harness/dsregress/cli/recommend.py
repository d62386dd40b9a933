"""``recommend``: the release to pin, by stored results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click
import msgspec

from dsregress.advice import release_advice
from dsregress.advice.release_advice import Advice, Rulings
from dsregress.advisories.advisory import Advisory
from dsregress.advisories.auditing import StatedJob, audit_job
from dsregress.advisories.job_facts import Fact, Facts
from dsregress.advisories.matching import KnownJob, known_packages, known_versions
from dsregress.advisories.measured_jobs import reader_facts
from dsregress.advisories.pinning import choose_release
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import UpgradeAnswer, judge_release
from dsregress.cli import options
from dsregress.cli.ignored_advisories import heeded_advisories
from dsregress.cli.lines import print_note
from dsregress.cli.named_cells import declared_card, declared_scenario
from dsregress.cli.options import JobOptions
from dsregress.cli.output import note_problems, write_answer
from dsregress.cli.stated_jobs import installed_packages, offline_releases, stated_job
from dsregress.cli.stored_results import baseline_stack, longest_series, most_common, release_of_stack, series
from dsregress.compare import Comparison
from dsregress.config.settings import Settings
from dsregress.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION, NothingMeasured, UsageError
from dsregress.model import AXES, Stack
from dsregress.probe.scenario import PACKAGES, Scenario, ScenarioError
from dsregress.report.answers import pin_answer
from dsregress.report.answers import recommend_answer as recommend_report
from dsregress.report.context import report_context
from dsregress.report.release_verdicts import ReleaseVerdicts
from dsregress.run import available_workloads, pipeline, targets
from dsregress.store import Store
from dsregress.versions.releases import parsed_version
from dsregress.versions.specs import expand
from dsregress.versions.stack_plans import NEWEST_THAT_FITS
from dsregress.wording import commands
from dsregress.wording.quantities import listing


class PinnedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """The workload that a release is pinned for: a job by its packages, a program, or a variant of a scenario."""

    sources: tuple[str, ...]  #: files of the job's packages; empty: stored results decide
    job: JobOptions
    variant: str


@click.command("recommend")
@click.argument("scenario", required=False)
@options.grouped(
    "pinned",
    PinnedWorkload,
    click.option(
        "-r",
        "--requirement",
        "sources",
        multiple=True,
        metavar="FILE",
        help="The packages of a job of your own, as `audit` reads them. Its facts come from --config, --program and --set.",
    ),
    options.job_options,
    click.option(
        "--variant",
        default="base",
        metavar="VARIANT",
        help="Variant of the scenario, e.g. 'gradient_checkpointing=none'.",
    ),
)
@options.release_options
@options.fail_on_option(
    "Findings that rule a release out, of memory,time,numerics,crash: e.g. memory,crash, costs among them. Default: the "
    "configuration's, without costs."
)
@options.results_option
@options.json_option
def recommend_command(
    scenario: str | None,
    pinned: PinnedWorkload,
    stacks: options.StackOptions,
    fail_on: tuple[str, ...] | None,
    results: str | None,
    json_file: str | None,
) -> int:
    """Choose the release to pin, for a job or for SCENARIO: the newest one that nothing rules out.

    With -r FILE, the job is put to the advisories as by `audit`, and no results are read. For SCENARIO, or a --program that
    was measured, reads stored results of every device mode, and runs nothing. A release that was not measured is not
    recommended; the report prints the command that measures it. For each rejected release it says why, and what to set if
    you must use it. Of a SCENARIO without results, the advisories alone decide.

    \b
    Exit codes: 0 a release is recommended, and every requested one was measured; 1 every release is ruled out; 4 results
    are missing.

    \b
    Examples:
      dsregress recommend -r requirements.txt --config ds_zero3.json --set lora=yes
      dsregress recommend llama3_70b_zero3 --gpu A800-80G
      dsregress recommend llama3_70b_zero3 --gpu A800-80G --deepspeed '>=0.16,<0.17'
      dsregress recommend llama_zero3_backward --variant zero_stage=2 \\
          --results results/2026-11-21.jsonl.gz --fail-on memory,crash
    """
    settings = options.load_settings(results=results, fail_on=fail_on)
    package = targets.varied_package(settings)
    if pinned.sources:
        _check_own_job(scenario, fail_on)
        return _recommend_for_job(pinned.sources, pinned.job, stacks, settings, json_file)
    scenario = _named_workload(scenario, pinned.job, settings)
    declared = declared_scenario(settings, scenario)
    _check_variant(declared, pinned.variant)
    question = release_advice.RecommendQuery(
        scenario=scenario,
        variant=pinned.variant,
        card=pinned.job.card or declared_card(scenario, declared),
        fail_on=settings.fail_on,
        counts_costs=fail_on is not None,
    )
    store = Store(settings.results)
    known = [name for name in store.stack_ids() if next(store.files([name], scenario), None) is not None]
    package = _package_of_results(known, package, stacks)
    others = {name: spec for name, spec in stacks.versions.items() if name != package}
    again = Remeasure(question, declared, package, stacks.baseline or settings.baseline, others)
    if not known and (facts := _job_facts(question, declared)):
        stated = _job_of_scenario(declared, facts, others, settings)
        print_note(f"nothing measured of {scenario} in {settings.results}: `{again.command([])}` measures it")
        return _recommend_by_advisories(stated, package, stacks, settings, json_file)
    advice = _advised(question, declared, again, settings, stacks, known)
    lines = again.commands(advice)
    write_answer(
        lambda: recommend_report.advice_text(advice, lines),
        (json_file, lambda: recommend_report.advice_json(advice, lines)),
    )
    return exit_code_of_advice(advice)


def _named_workload(scenario: str | None, job: JobOptions, settings: Settings) -> str:
    """Return the name of what was measured. Raise UsageError, also for a call that names nothing."""
    if scenario is None and job.program is None:
        hint = (
            "give -r FILE for a job of your own, or name a scenario or --program 'torchrun train.py' that was measured"
        )
        raise UsageError("no packages and no workload", where="command line", hint=hint)
    return available_workloads.measured_workload(scenario, job.program, settings)


def _check_own_job(scenario: str | None, fail_on: tuple[str, ...] | None) -> None:
    """Raise UsageError for what a job of one's own does not take."""
    if scenario is not None:
        hint = "name one of them: -r FILE is a job of your own, and SCENARIO one that was measured"
        raise UsageError(f"{scenario} and -r", where="command line", hint=hint)
    if fail_on is not None:
        what, hint = "--fail-on and -r", "leave it out: it counts findings of what was measured, and -r reads none"
        raise UsageError(what, where="command line", hint=hint)


def _package_of_results(known: Sequence[str], package: str, stacks: options.StackOptions) -> str:
    """Return the package to recommend a release of: the configured one, unless no option names releases and the results
    compare those of another."""
    if not known or stacks.names_releases:
        return package
    found, compared = longest_series(known, package)
    if found == package or len(series(most_common(known, package), package, known)) > 1:
        return package
    print_note(f"the results compare {len(compared)} releases of {found}: this is about {found}")
    return found


def _recommend_for_job(
    sources: Sequence[str], job: JobOptions, stacks: options.StackOptions, settings: Settings, json_file: str | None
) -> int:
    """Answer for a stated job."""
    advisories, package = heeded_advisories(settings), targets.varied_package(settings)
    stated = stated_job(job, installed_packages(sources, None, advisories, settings))
    package = _package_of_job(advisories, stated, package, stacks)
    others = {name: spec for name, spec in stacks.versions.items() if name != package}
    return _recommend_by_advisories(stated.going_to(_pinned(others)), package, stacks, settings, json_file)


def _package_of_job(advisories: Sequence[Advisory], job: StatedJob, package: str, stacks: options.StackOptions) -> str:
    """Return the package to recommend a release of: that of which an option names several, else the configured one. If the
    job has none of it, or does not use it, as FSDP uses no DeepSpeed, it is one whose releases decide a fault of the job.
    Raise UsageError."""
    several = [name for name in stacks.versions if name not in _pinned(stacks.versions)]
    if len(several) > 1:
        hint = "name one release of the others: one package is recommended"
        raise UsageError(f"several releases of {listing(several)}", where="command line", hint=hint)
    if several or package in stacks.versions:
        return several[0] if several else package
    unused = job.facts.get(package)
    is_unused = unused is not None and unused.value is False
    if package in {*job.versions, *job.ranges} and not is_unused:
        return package
    faulty = [name for one in audit_job(advisories, job.job).concerned for name in one.advisory.packages]
    candidates = [one for one in (*faulty, "accelerate", *AXES) if one in job.versions and one != package]
    if not candidates:
        return package
    why = f"the job has no {package}"
    if package in job.versions and unused is not None:
        why = f"the job does not use {package} ({unused.source})"
    print_note(f"{why}: this is about {candidates[0]}")
    return candidates[0]


def _recommend_by_advisories(
    job: StatedJob, package: str, stacks: options.StackOptions, settings: Settings, json_file: str | None
) -> int:
    """Answer by the advisories alone, of the releases that the options name, or of all that advisories know
    and the one that the job has."""
    advisories = heeded_advisories(settings)
    own = [job.versions[package]] if package in job.versions else []
    releases = list(dict.fromkeys([*known_versions(advisories, package), *own]))
    spec = stacks.versions.get(package, NEWEST_THAT_FITS)
    if spec != NEWEST_THAT_FITS:
        releases = list(expand(package, spec, offline_releases(package)))
    pin = choose_release(advisories, job.job, package, releases)
    write_answer(lambda: pin_answer.pin_text(pin, job), (json_file, lambda: pin_answer.pin_json(pin)))
    if pin.answer is not None:
        return EXIT_OK
    return EXIT_REGRESSION if pin.is_ruled_out else EXIT_NOTHING_MEASURED


def _advised(
    question: release_advice.RecommendQuery,
    declared: Scenario,
    again: Remeasure,
    settings: Settings,
    stacks: options.StackOptions,
    known: Sequence[str],
) -> Advice:
    """Return the advice by what is stored of ``known`` stacks. Raise NothingMeasured, with the command that measures what
    is missing."""
    scenario, package, requested = question.scenario, again.package, _requested(settings, stacks)
    versions = [stack.versions[package] for stack in requested]
    if not known:
        hint = f"`{again.command(versions)}` measures some"
        raise NothingMeasured(f"no results of {scenario}", where=settings.results, hint=hint)
    like = requested[0].id if requested else most_common(known, package)
    baseline_hint = f"`{again.command(versions)}` measures it, or choose another with --baseline"
    try:
        own = series(like, package, known)
        baseline = baseline_stack(stacks.baseline, settings.baseline, package, own, like=like)
        again.baseline = release_of_stack(baseline, package) or again.baseline
    except UsageError:
        what = f"no results of {scenario} for the baseline {again.baseline}"
        raise NothingMeasured(what, where=settings.results, hint=baseline_hint) from None
    candidates = [stack.id for stack in requested if stack.id in known] or (
        [] if requested else series(baseline, package, known)
    )
    problems: list[str] = []
    compared = list(dict.fromkeys([baseline, *candidates]))
    comparison = pipeline.compare_stored(
        [Store(settings.results)], baseline, settings, problems.append, compared, scenario
    )
    note_problems(problems)
    if baseline not in comparison.names:
        what = f"no result of {scenario} can be read for the baseline"
        raise NothingMeasured(what, where=settings.results, hint=baseline_hint)
    missing = [stack.versions[package] for stack in requested if stack.id not in known]
    rulings = rulings_of_advisories(heeded_advisories(settings), question, declared, comparison, package)
    return release_advice.advise(question, declared, comparison, package, compared, missing, rulings)


def rulings_of_advisories(
    advisories: Sequence[Advisory],
    question: release_advice.RecommendQuery,
    declared: Scenario,
    comparison: Comparison,
    package: str,
) -> Rulings:
    """Return what the advisories say of the scenario's job: as it is simulated if it is, since that is its real size."""
    if package not in known_packages(advisories):
        return Rulings()
    facts: Facts = {name: fact.value for name, fact in _job_facts(question, declared).items()}
    measured = [one for one in comparison.cells.workloads if one.startswith(f"{question.scenario}/{question.variant}/")]
    context = report_context(comparison)
    verdicts = ReleaseVerdicts(context)

    def answer_for(stack: Stack) -> UpgradeAnswer:
        own = facts or next(
            (found for one in measured if (found := context.knowledge.facts_of_reader(stack.id, one))), {}
        )
        versions = {**stack.versions, **_added_packages(declared)}
        absent = known_packages(advisories) - versions.keys()
        return judge_release(advisories, KnownJob(versions=versions, facts=own, absent=absent), package)

    return Rulings(
        of_release=answer_for,
        knows_finding=verdicts.knows_finding,
        knows_end=lambda cell, error: verdicts.knows_end(cell.stack.id, cell.workload, error),
    )


def _job_facts(question: release_advice.RecommendQuery, declared: Scenario) -> dict[str, Fact]:
    """Return the facts of the scenario's job, as it is simulated if it is, by name; empty if none is known."""
    device = "sim" if "sim" in declared.devices else next(iter(declared.devices))
    workload = f"{question.scenario}/{question.variant}/{device}"
    found = reader_facts(workload, declared.resolve(question.variant, device))
    return {name: Fact(name=name, value=value, source=f"scenario {question.scenario}") for name, value in found.items()}


def _job_of_scenario(
    declared: Scenario, facts: Mapping[str, Fact], others: Mapping[str, str], settings: Settings
) -> StatedJob:
    """Return a scenario's job: with the packages that it adds to the configured stack, and no others."""
    versions = {**_pinned(others), **_added_packages(declared)}
    absent = known_packages(read_advisories()) - settings.stack.keys() - versions.keys()
    return StatedJob(versions=versions, facts=facts, absent=absent)


def _added_packages(declared: Scenario) -> dict[str, str]:
    """Return the packages that a scenario adds to its stack, by release."""
    return _pinned(declared.parameters.get(PACKAGES, {}))


def _pinned(versions: Mapping[str, str]) -> dict[str, str]:
    """Return the packages of which one release is named."""
    exact = {name: one.removeprefix("==") for name, one in versions.items()}
    return {name: one for name, one in exact.items() if parsed_version(one) is not None}


def exit_code_of_advice(advice: Advice) -> int:
    """Return the exit code that the command's help describes."""
    if advice.missing or (advice.pick is None and any(release.unknown for release in advice.newer)):
        return EXIT_NOTHING_MEASURED
    return EXIT_REGRESSION if advice.pick is None else EXIT_OK


def _check_variant(scenario: Scenario, variant: str) -> None:
    """Raise UsageError for a variant that the scenario cannot run."""
    try:
        for device in scenario.devices:
            scenario.resolve(variant, device)
    except ScenarioError as error:
        raise UsageError(str(error), where="--variant", hint=f"`{commands.SCENARIOS}` lists them") from None


def _requested(settings: Settings, stacks: options.StackOptions) -> Sequence[Stack]:
    """Return the stacks that the options name; empty if they name none."""
    if not stacks.names_releases:
        return ()
    return pipeline.plan_stacks(settings, stacks.choice(), pipeline.new_installer(settings)).stacks


class Remeasure:
    """The commands that measure missing results."""

    def __init__(
        self,
        question: release_advice.RecommendQuery,
        scenario: Scenario,
        package: str,
        baseline: str,
        others: Mapping[str, str],
    ) -> None:
        self._question = question
        self._scenario = scenario
        self.package = package
        self.baseline = baseline
        self._others = others

    def commands(self, advice: Advice) -> list[str]:
        """Return one command for all releases without a verdict, and one for settings to try in those that are ruled out."""
        unknown = [release.version for release in (*advice.newer, *advice.older) if release.unknown]
        wanted = list(dict.fromkeys([*advice.missing, *unknown]))
        lines = [self.command(wanted)] if wanted else []
        stuck = [r.version for r in advice.newer if not r.unknown and not r.ways]
        others = list(self._scenario.remedy_ids.values())
        if stuck and others:
            lines.append(self.command(stuck, others))
        return lines

    def command(self, versions: Sequence[str], variants: Sequence[str] = ()) -> str:
        """Return the command that measures these versions and the baseline."""
        return commands.regress(
            releases={
                self.package: [self.baseline, *versions] if versions else (),
                **{package: [spec] for package, spec in self._others.items()},
            },
            baseline=self.baseline if versions else "",
            scenario=self._question.scenario,
            variants=variants or (self._question.variant,),
            device="sim" if "sim" in self._scenario.devices else "",
        )
