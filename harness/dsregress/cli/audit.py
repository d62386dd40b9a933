"""``audit``: tells, by the advisories alone, what concerns a job, and whether its packages can be upgraded."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dsregress.advice.gpus import Card
from dsregress.advisories.advisory import Advisory
from dsregress.advisories.auditing import StatedJob, audit_job
from dsregress.advisories.job_facts import Fact, merged_facts, said_fact
from dsregress.advisories.matching import packages_of_advisory
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.stated.launch import facts_of_file, facts_of_line
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict, judge_upgrade
from dsregress.cli import options
from dsregress.cli.lines import print_note
from dsregress.cli.named_files import STDIN, read_named
from dsregress.cli.output import write_answer
from dsregress.config.audit import IgnoredAdvisory
from dsregress.config.variables import child_environment
from dsregress.envs import existing
from dsregress.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION, NothingMeasured, UsageError, no_such
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.report.answers import audit_answer, audit_json
from dsregress.run.available_workloads import Program
from dsregress.versions import installed
from dsregress.versions.installed import InstalledPackages
from dsregress.versions.releases import known_releases
from dsregress.wording import commands

#: Packages whose presence is a fact of its own.
_OPTIONAL = ("vllm", "pillow")

_HINT = "name a requirements file, uv.lock or poetry.lock, or - for stdin"


@click.command("audit")
@click.option(
    "-r",
    "--requirement",
    "sources",
    multiple=True,
    metavar="FILE",
    help="A requirements file, a lock (uv.lock, poetry.lock), a conda environment, or the output of `pip freeze` (- for "
    "stdin). Repeatable.",
)
@click.option(
    "--python", "python", metavar="PATH", help="A running environment in its place: its interpreter or folder."
)
@click.option(
    "--to",
    "targets",
    multiple=True,
    metavar="FILE|NAME==VERSION|NAME==latest",
    help="Say whether the job can go there: another lock, or a release of a package. Repeatable.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="FILE",
    help="What the job is configured by: DeepSpeed's JSON, accelerate's YAML, settings of LLaMA-Factory, axolotl or TRL. "
    "Repeatable.",
)
@options.program_option
@options.card_option("The card that the job runs on, e.g. A100-40G.")
@click.option("--ranks", type=click.IntRange(1, 100_000), metavar="N", help="Number of ranks.")
@click.option(
    "--set",
    "said",
    multiple=True,
    metavar="NAME=VALUE",
    help="A fact that no file states, as the answer asks for it: resume=yes, lora_rank=16. Repeatable.",
)
@click.option("--ignore", "ignored", multiple=True, metavar="ID", help="An advisory to leave out. Repeatable.")
@options.json_option
def audit_command(
    sources: tuple[str, ...],
    python: str | None,
    targets: tuple[str, ...],
    configs: tuple[str, ...],
    program: Program | None,
    card: Card | None,
    ranks: int | None,
    said: tuple[str, ...],
    ignored: tuple[str, ...],
    json_file: str | None,
) -> int:
    """Say which known problems concern a job, and whether its packages can be upgraded. Measures nothing.

    An advisory is one problem: the releases that have it, and the settings that it needs, as far as they were run. What
    FILEs and the launch line do not state is asked for, and never assumed.

    \b
    Exit codes: 0 nothing concerns the job, or yes; 1 something does, or a setting must change, or an upgrade is ruled out;
    4 no package that is known, or it is not known whether the job can go there.

    \b
    Examples:
      dsregress audit -r requirements.txt --config ds_zero3.json
      dsregress audit -r uv.lock --program 'accelerate launch --config_file zero3.yaml train.py --use_peft' --gpu A100-40G
      dsregress audit -r requirements.txt --config ds_zero3.json --to deepspeed==0.19.8
      dsregress audit -r old.lock --to new.lock --config lora_sft.yaml --set resume=no
      dsregress audit --python .venv --json -

    \b
    Leave an advisory out, in pyproject.toml, with a reason and until a day:
      [tool.dsregress.audit]
      ignore = [{id = "DSR-2026-0007", reason = "we do not resume", expires = 2027-03-01}]
    """
    settings = options.load_settings()
    advisories = read_advisories()
    found = _installed(sources, python, advisories)
    read = [fact for file in configs for fact in facts_of_file(file, Path())]
    read += facts_of_line(program.line, Path()) if program is not None else []
    read += [Fact(name="card", value=card.name, source="--gpu")] if card is not None else []
    read += [Fact(name="world_size", value=ranks, source="--ranks")] if ranks is not None else []
    read += found.facts
    facts, conflicts = merged_facts(read, [said_fact(text) for text in said])
    old = StatedJob(versions=found.versions, facts=facts, conflicts=conflicts, absent=found.absent)
    left_out = _ignored(ignored, settings.audit.ignore, advisories)
    if not targets:
        audit = audit_job(advisories, old.job, left_out)
        write_answer(
            lambda: audit_answer.audit_text(audit, old), (json_file, lambda: audit_json.audit_json(audit, old))
        )
        return EXIT_REGRESSION if audit.concerned else EXIT_OK
    new = old.going_to(_target_versions(targets, found, advisories))
    kept = [one for one in advisories if one.id not in left_out]
    answer = judge_upgrade(kept, old.job, new.job)
    audit = audit_job(advisories, new.job, left_out)
    command = measuring_command(old, new, program)
    write_answer(
        lambda: audit_answer.upgrade_text(answer, audit, old, new, command),
        (json_file, lambda: audit_json.upgrade_json(answer, audit, old, new, command)),
    )
    return exit_code_of_answer(answer)


def exit_code_of_answer(answer: UpgradeAnswer) -> int:
    """Return the exit code that the command's help describes."""
    if answer.verdict is Verdict.UNKNOWN:
        return EXIT_NOTHING_MEASURED
    return EXIT_OK if answer.verdict is Verdict.YES else EXIT_REGRESSION


class _Found:
    """The packages of a job: `versions`, and those that are known to be `absent`."""

    def __init__(self, packages: Sequence[InstalledPackages], advisories: Sequence[Advisory], where: str) -> None:
        self.where = where
        self.versions = {name: version for one in packages for name, version in one.versions.items()}
        self.unknown = {name: why for one in packages for name, why in one.unknown.items() if name not in self.versions}
        self.known = {package for one in advisories for package in packages_of_advisory(one)}
        self.absent: frozenset[str] = frozenset()

    @property
    def facts(self) -> list[Fact]:
        """The facts that a package is installed, or not."""
        present = [name for name in _OPTIONAL if name in self.versions]
        absent = [name for name in _OPTIONAL if name in self.absent]
        return [
            *(Fact(name=name, value=True, source=f"{self.where}: {name}") for name in present),
            *(Fact(name=name, value=False, source=f"{self.where}: no {name}") for name in absent),
        ]


def _installed(sources: Sequence[str], python: str | None, advisories: Sequence[Advisory]) -> _Found:
    """Return the packages of all sources. Raise UsageError, NothingMeasured if no advisory knows any."""
    if not sources and python is None:
        raise UsageError("no packages", where="command line", hint="give -r FILE or --python PATH")
    packages, whole = [], python is not None
    for source in sources:
        data = read_named(source, hint=_HINT)
        packages.append(installed.read_packages(data, STDIN if source == "-" else source))
        whole = whole or installed.is_lock(data.decode("utf-8", "replace"), source)
    if python is not None:
        packages.append(
            installed.packages_of(existing.installed_versions(python, {**child_environment(), **ENVIRONMENT}))
        )
    found = _Found(packages, advisories, " ".join([*sources, *([python] if python else [])]))
    if whole:
        found.absent = frozenset({*found.known, *_OPTIONAL} - found.versions.keys() - found.unknown.keys())
    mine = found.known & found.versions.keys()
    if not mine:
        unknown = [f"{name} ({found.unknown[name]})" for name in sorted(found.known & found.unknown.keys())]
        what = f"does not pin {', '.join(unknown)}" if unknown else f"has none of {', '.join(sorted(found.known))}"
        raise NothingMeasured(what, where=found.where, hint="use the output of `pip freeze`")
    for name in sorted(found.known & found.unknown.keys()):
        print_note(f"{name}: {found.unknown[name]}, so that its release is not known")
    return found


def _target_versions(targets: Sequence[str], found: _Found, advisories: Sequence[Advisory]) -> dict[str, str]:
    """Return package -> release to go to. Raise UsageError."""
    wanted: dict[str, str] = {}
    for text in targets:
        name, equals, spec = (part.strip() for part in text.partition("=="))
        if not equals and not _is_version(text):
            packages = installed.read_packages(read_named(text, hint=_HINT), text)
            wanted.update(
                {package: version for package, version in packages.versions.items() if package in found.known}
            )
            continue
        package = str(canonicalize_name(name)) if equals else "deepspeed"
        wanted[package] = _release(package, spec if equals else text)
    if not wanted.keys() & found.versions.keys():
        what = f"{found.where} does not pin {', '.join(sorted(wanted)) or 'any package of it'}"
        raise UsageError(what, where="--to", hint=f"it pins {', '.join(sorted(found.known & found.versions.keys()))}")
    return wanted


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except (InvalidVersion, ValueError):
        return text == "latest"
    return True


def _release(package: str, spec: str) -> str:
    if spec == "latest":
        known = known_releases(package)
        if not known:
            raise UsageError(f"no release of {package} is known", where="--to", hint="name one: NAME==VERSION")
        return known[-1]
    if not _is_version(spec):
        raise UsageError(f"{spec!r} is not a version", where="--to", hint="write e.g. deepspeed==0.19.8")
    return str(Version(spec))


def _ignored(ids: Sequence[str], configured: Sequence[IgnoredAdvisory], advisories: Sequence[Advisory]) -> set[str]:
    """Return the ids that are left out today. Raise UsageError for one that no advisory has."""
    known = [one.id for one in advisories]
    for name, where in (
        *((one, "--ignore") for one in ids),
        *((one.id, "[tool.dsregress.audit]") for one in configured),
    ):
        if name not in known:
            raise no_such("advisory", name, known, where=where, most=6)
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    for one in configured:
        if one.expires < today:
            print_note(f"{one.id} was ignored until {one.expires} ({one.reason}); it is no longer")
    return {*ids, *(one.id for one in configured if one.expires >= today)}


def measuring_command(old: StatedJob, new: StatedJob, program: Program | None) -> str:
    """Return the command that measures the upgrade."""
    releases: Mapping[str, list[str]] = {
        name: [old.versions[name], version]
        for name, version in new.versions.items()
        if name in old.versions and old.versions[name] != version
    }
    first = next(iter(releases), "")
    baseline = (
        releases[first][0] if list(releases) == ["deepspeed"] else f"{first}=={releases[first][0]}" if first else ""
    )
    return commands.regress(releases=releases, baseline=baseline, program=program.line if program is not None else "")
