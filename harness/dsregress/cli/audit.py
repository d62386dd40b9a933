"""``audit``: tells, by the advisories alone, what concerns a job, and whether its packages can be upgraded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import click
import msgspec
from packaging.utils import canonicalize_name

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.auditing import Audit, StatedJob, audit_job
from dsregress.advisories.job_facts import Fact
from dsregress.advisories.matching import known_packages
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.stated.launch import line_of_settings
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict, judge_upgrade
from dsregress.cli import options
from dsregress.cli.configured_job import completed_job, configured_program
from dsregress.cli.ignored_advisories import ignored_ids
from dsregress.cli.lines import print_note
from dsregress.cli.options import JobOptions
from dsregress.cli.output import write_answer
from dsregress.cli.package_files import packages_of_file
from dsregress.cli.stated_jobs import (
    LATEST,
    FoundPackages,
    check_named_release,
    goal_release,
    installed_packages,
    kept_releases,
    note_unlisted,
    packages_before,
    releases_of_goal,
    stated_job,
    uses_deepspeed,
)
from dsregress.config.settings import Settings
from dsregress.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION, UsageError
from dsregress.model import AXES
from dsregress.probe.border.masking import masked_launch_line
from dsregress.probe.launch_line import parse
from dsregress.probe.module_packages import launched_package
from dsregress.report.answers import audit_answer, audit_comment, audit_json, audit_sarif
from dsregress.versions.releases import is_too_old, parsed_version
from dsregress.wording import commands
from dsregress.wording.workload_words import OPEN_LAUNCH_LINE


class AuditedPackages(msgspec.Struct, frozen=True, kw_only=True):
    """The packages that a job has, and those that it is to go to."""

    sources: tuple[str, ...]
    python: str | None
    targets: tuple[str, ...]
    against: str | None  #: a branch whose packages the job has

    def __post_init__(self) -> None:
        if self.against and (self.targets or self.python):
            hint = "drop --to and --python: it compares the files themselves"
            raise UsageError("names both sides", where="--against", hint=hint)


class AuditRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run of the program, and the files that are requested beside the text."""

    is_observed: bool
    json_file: str | None
    markdown: str | None
    sarif: str | None


@click.command("audit")
@options.grouped(
    "packages",
    AuditedPackages,
    click.option(
        "-r",
        "--requirement",
        "sources",
        multiple=True,
        metavar="FILE",
        help="A requirements file, a lock (uv.lock, poetry.lock), a conda environment, or the output of `pip freeze` (- for "
        "stdin). Repeatable.",
    ),
    click.option(
        "--python", "python", metavar="PATH", help="A running environment in its place: its interpreter or folder."
    ),
    click.option(
        "--to",
        "targets",
        multiple=True,
        metavar="FILE|NAME==VERSION|NAME==latest",
        help="Say whether the job can go there: another lock, or a release of a package. Repeatable.",
    ),
    click.option(
        "--against",
        metavar="BRANCH",
        help="Say whether the job can go from the packages of the last commit that is in BRANCH too to those of the files "
        "as they are: what a pull request changes.",
    ),
)
@options.job_options
@click.option("--ignore", "ignored", multiple=True, metavar="ID", help="An advisory to leave out. Repeatable.")
@options.grouped(
    "run",
    AuditRun,
    click.option(
        "--observe",
        "is_observed",
        is_flag=True,
        help="Run the program for some seconds in `sim` with its packages, and take what was in force as stated.",
    ),
    options.json_option,
    click.option(
        "--markdown",
        type=options.OUTPUT_FILE,
        metavar="FILE",
        help="Write a comment for a pull request, of at most 15 lines (- for stdout). Empty if no package changes.",
    ),
    click.option(
        "--sarif", type=options.OUTPUT_FILE, metavar="FILE", help="Write SARIF, for code scanning (- for stdout)."
    ),
)
def audit_command(packages: AuditedPackages, job: JobOptions, ignored: tuple[str, ...], run: AuditRun) -> int:
    """Say which known problems concern a job, and whether its packages can be upgraded. Measures nothing.

    An advisory is one problem: the releases that have it, and the settings that it needs, as far as they were run. What
    FILEs and the launch line do not state is asked for, and never assumed; --observe runs the program to see more of it.

    \b
    Exit codes: 0 nothing concerns the job, or yes; 1 something does, or a setting must change, or an upgrade is ruled out;
    4 no package that is known, or a release that is not known, or what was not stated decides about a fault that most jobs
    would have, or it is not known whether the job can go there.

    \b
    Examples:
      dsregress audit -r requirements.txt --config ds_zero3.json
      dsregress audit -r uv.lock --program 'accelerate launch --config_file zero3.yaml train.py --use_peft' --gpu A100-40G
      dsregress audit -r requirements.txt --config ds_zero3.json --to deepspeed==0.19.8
      dsregress audit -r old.lock --to new.lock --config lora_sft.yaml --set resume=no
      dsregress audit --against origin/main --markdown comment.md    what a pull request's lock files change
      dsregress audit -r uv.lock --program 'torchrun --nproc_per_node 8 train.py' --observe
      dsregress audit --python .venv --json -

    \b
    Leave an advisory out, in pyproject.toml, with a reason and until a day:
      [tool.dsregress.audit]
      ignore = [{id = "DSR-2026-0007", reason = "we do not resume", expires = 2027-03-01}]
    """
    settings = options.load_settings()
    advisories = read_advisories()
    job = completed_job(job, settings)
    left_out = ignored_ids(ignored, settings.audit.ignore, advisories)
    named = [source for source in packages.sources if source != "-"]
    found, versions = _found_and_wanted(packages, settings, advisories)
    observed = _observed(settings, found, job) if run.is_observed else []
    old = stated_job(job, found, observed=observed)
    if versions is None:
        audit = audit_job(advisories, old.job, left_out)
        write_answer(
            lambda: audit_answer.audit_text(audit, old),
            (run.json_file, lambda: audit_json.audit_json(audit, old)),
            (run.markdown, lambda: audit_comment.audit_comment(audit)),
            (run.sarif, lambda: audit_sarif.audit_sarif(audit, old, named)),
        )
        return exit_code_of_audit(audit)
    new = old.going_to(versions)
    if packages.against and new.versions == old.versions:
        write_answer(lambda: f"no package that is known changes since {packages.against}\n", (run.markdown, str))
        return EXIT_OK
    kept = [one for one in advisories if one.id not in left_out]
    answer = judge_upgrade(kept, old.job, new.job)
    audit = audit_job(advisories, new.job, left_out)
    is_configured = job.program is not None and job.program == configured_program(settings)
    line = job.program.line if job.program is not None else line_of_settings(job.configs)
    command = measuring_command(old, new, packages, line, known=known_packages(advisories), is_configured=is_configured)
    write_answer(
        lambda: audit_answer.upgrade_text(answer, audit, old, new, command),
        (run.json_file, lambda: audit_json.upgrade_json(answer, audit, old, new, command)),
        (run.markdown, lambda: audit_comment.upgrade_comment(answer, old, new, command)),
        (run.sarif, lambda: audit_sarif.upgrade_sarif(answer, audit, old, new, named)),
    )
    return exit_code_of_answer(answer)


def _observed(settings: Settings, found: FoundPackages, job: JobOptions) -> list[Fact]:
    from dsregress.cli.observed_jobs import observed_facts  # what measures takes a second to import

    return observed_facts(settings, found.versions, job)


def _found_and_wanted(
    packages: AuditedPackages, settings: Settings, advisories: Sequence[Advisory]
) -> tuple[FoundPackages, dict[str, str] | None]:
    """Return the packages of the job, and package -> release to go to, None if it is audited as it is. Raise UsageError,
    NothingMeasured."""
    if not packages.against:
        found = installed_packages(packages.sources, packages.python, advisories, settings)
        wanted = _target_versions(packages.targets, found) if packages.targets else None
        note_unlisted(wanted or {}, found.known)
        if wanted is not None and wanted.items() <= found.versions.items():
            print_note("no package changes: the job is audited as it is")
            wanted = None
        return found, wanted
    here = installed_packages(packages.sources, None, advisories, settings)
    files = packages.sources or tuple(str(Path(settings.root, file)) for file in settings.job.files)
    if not files:
        print_note("no file pins packages, so that no change can: the job is audited as it is")
        return here, None
    before = packages_before(files, packages.against, settings)
    found = FoundPackages([before], advisories, packages.against)
    return found, {name: one for name, one in here.versions.items() if name in found.known | found.versions.keys()}


def exit_code_of_audit(audit: Audit) -> int:
    """Return the exit code that the command's help describes."""
    if audit.is_at_fault:
        return EXIT_REGRESSION
    return EXIT_NOTHING_MEASURED if audit.unlisted or audit.usual else EXIT_OK


def exit_code_of_answer(answer: UpgradeAnswer) -> int:
    """Return the exit code that the command's help describes."""
    if answer.verdict is Verdict.UNKNOWN:
        return EXIT_NOTHING_MEASURED
    return EXIT_OK if answer.verdict is Verdict.YES else EXIT_REGRESSION


def _target_versions(targets: Sequence[str], found: FoundPackages) -> dict[str, str]:
    """Return package -> release to go to. Raise UsageError."""
    wanted: dict[str, str] = {}
    named: set[str] = set()
    for text in targets:
        name, equals, spec = (part.strip() for part in text.partition("=="))
        if not equals and text != LATEST and parsed_version(text) is None:
            mine = found.versions.keys() | found.ranges.keys() | found.known
            check_named_release(text, mine)
            packages = packages_of_file(text)
            goals = releases_of_goal(text, packages, found.versions, found.ranges)
            wanted.update({name: version for name, version in goals.items() if name in mine})
            continue
        package = str(canonicalize_name(name)) if equals else "deepspeed"
        if package in named:
            raise UsageError(f"two releases of {package}", where="--to", hint="ask for one upgrade at a time")
        named.add(package)
        wanted[package] = _release(package, spec if equals else text)
    for name in wanted.keys() & found.ranges.keys():
        print_note(
            f"{name} is not pinned in {found.where}, so that what the upgrade ends is not known: "
            f"`pip freeze | grep -i {name}=` in its environment prints the pin"
        )
    if not wanted.keys() & (found.versions.keys() | found.ranges.keys()):
        what = f"{found.where} does not pin {', '.join(sorted(wanted)) or 'any package of it'}"
        raise UsageError(what, where="--to", hint=f"it pins {', '.join(sorted(found.known & found.versions.keys()))}")
    return wanted


def _release(package: str, spec: str) -> str:
    found = goal_release(package, spec, hint="write e.g. deepspeed==0.19.8")
    if found is None:
        raise UsageError(f"no release of {package} is known", where="--to", hint="name one: NAME==VERSION")
    return found


def measuring_command(
    old: StatedJob,
    new: StatedJob,
    packages: AuditedPackages,
    program: str,
    *,
    known: Collection[str],
    is_configured: bool,
) -> str:
    """Return the command that measures the upgrade, beside the releases that the job keeps. What is too old to be measured
    is left out. Several packages that change are measured as they go together. ``program`` is a launch line; without it,
    that of the configuration holds. ``known`` are the packages that advisories know, whose releases matter."""
    changing = {name for name, version in new.versions.items() if old.versions.get(name) != version}
    launched = launched_package(parse(program)) if program else ""
    mine = {name: version for name, version in new.versions.items() if name in {*AXES, *known, *changing, launched}}
    releases: Mapping[str, list[str]] = {
        name: [one for one in (old.versions[name], version) if not is_too_old(name, one)]
        for name, version in mine.items()
        if name in old.versions and name in changing
    }
    releases = {name: found for name, found in releases.items() if found}
    line = masked_launch_line(program) if program and not is_configured else ""
    is_together = len(releases) > 1 and len(packages.sources) == 1 and packages.targets
    is_of_scenario = releases.keys() <= {*AXES} and uses_deepspeed(old)
    if not is_configured and (is_together or not is_of_scenario):  # no scenario here stands for the job
        line = line or OPEN_LAUNCH_LINE
    if is_together:
        return commands.upgrade_together(packages.sources[0], packages.targets, line)
    first = next(iter(releases), "")
    baseline = (
        releases[first][0] if list(releases) == ["deepspeed"] else f"{first}=={releases[first][0]}" if first else ""
    )
    return commands.regress(releases={**releases, **kept_releases(mine, releases)}, baseline=baseline, program=line)
