"""``init``: a repository's own job, found in its files, and the workflow that looks after it."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable
from pathlib import Path

import click

from dsregress.advisories.job_facts import Fact
from dsregress.advisories.stated.launch import facts_of_line
from dsregress.cli import options
from dsregress.cli.command_json import Say, text_beside, write_command_json
from dsregress.cli.output import write_file
from dsregress.config.job import JobSettings
from dsregress.config.settings import DEFAULT_STACK, OWN_FILE, PYPROJECT, own_table, read_settings
from dsregress.errors import EXIT_OK, NothingMeasured, UsageError
from dsregress.model import AXES, LockedStack
from dsregress.probe.border.masking import masked_launch_line, without_secrets
from dsregress.probe.launch_line import LaunchLine, parse
from dsregress.probe.program_imports import all_imports
from dsregress.report.answers.audit_answer import fact_text
from dsregress.report.repository_files import WORKFLOWS, job_table, workflow_files
from dsregress.run import pipeline
from dsregress.run.available_workloads import Program
from dsregress.run.needed_packages import needs_of_program
from dsregress.run.project_requirements import name_of_project
from dsregress.run.repository_launches import FoundLaunch, launches_in
from dsregress.run.repository_packages import packages_in
from dsregress.run.stack_locks import locks_folder
from dsregress.versions import locking
from dsregress.wording import commands
from dsregress.wording.quantities import plural

#: Projects whose own code is measured, and not the packages that they use.
_FRAMEWORKS = (*AXES, "trl")

_MOST_LINES, _MOST_FACTS = 5, 8

#: Facts that say most of a job, in the order in which they are shown.
_SHOWN = ("trainer", "task", "integration", "zero_stage", "fsdp", "dtype", "lora_rank", "world_size")


@click.command("init")
@options.program_option
@click.option("--dry-run", is_flag=True, help="Print what would be written; write nothing.")
@options.json_option
def init_command(program: Program | None, dry_run: bool, json_file: str | None) -> int:
    """Find this repository's training job, and write it down with a workflow that looks after it.

    Reads the README files, scripts, Makefile and pyproject.toml for launch lines, and the locks and requirements for
    releases. Writes [tool.dsregress.job] into pyproject.toml, or into a dsregress.toml where there is none, and two
    workflows for GitHub. What is there already stays as it is. Then `audit`, `regress`, `upgrade` and `watch` need no
    options.

    \b
    Examples:
      dsregress init --dry-run
      dsregress init
      dsregress init --program 'accelerate launch --config_file zero3.yaml train.py'    of several, this one

    \b
    Exit codes: 0 written, or there already; 2 wrong usage; 4 no training program was found.
    """
    root = Path.cwd()
    say = text_beside(json_file)
    is_framework = name_of_project(root) in _FRAMEWORKS
    job, others = (None, []) if is_framework and program is None else _found_job(root, program, say)
    if job is None and not is_framework:
        raise NothingMeasured(
            "no launch line of a program that is here was found", where=root.name, hint="give it with --program 'LINE'"
        )
    wanted = {} if job is None else _table_files(root, job, say)
    wanted |= workflow_files(_own_repository(), is_framework=is_framework)
    for line in _other_lines(others):
        say(line)
    written = [file for file, text in wanted.items() if _write(root, file, text, say, dry_run=dry_run)]
    if not dry_run:
        for line in _next_lines(is_framework=is_framework, is_placed=bool(_own_repository())):
            say(line)
    write_command_json(
        json_file,
        "init",
        dry_run=dry_run,
        job=job,
        others=[{"file": one.file, "line": masked_launch_line(one.line)} for one in others],
        files=[{"file": file, "text": wanted[file]} for file in written],
        kept=[file for file in wanted if file not in written],
        next=_to_run(is_framework=is_framework),
    )
    return EXIT_OK


def _found_job(root: Path, program: Program | None, say: Say) -> tuple[JobSettings | None, list[FoundLaunch]]:
    """Return the job of a repository, None if no launch line is found, and the other lines that were found."""
    if program is not None:
        line, folder, others, where = program.line, Path(program.folder), [], "--program"
    else:
        launches = launches_in(root)
        if not launches:
            return None, []
        first, *others = launches
        line, folder, where = first.line, root / first.folder, first.file
    if without_secrets(line) != line:
        raise UsageError("the launch line has a secret in it", where=where, hint="pass it by a variable of CI instead")
    say(f"found in {where}: {line}")
    parsed = parse(line)
    facts, absent = facts_of_line(line, folder)
    for fact_line in _fact_lines(facts, absent):
        say(fact_line)
    packages = packages_in(root, folder, _used_packages(parsed, folder, facts), _usual_releases())
    lacking = needs_of_program(parsed, folder, _locked_requirements()).packages
    # A pin fits those beside it, and not another torch.
    pins = {name: wanted.pin for name, wanted in lacking.items() if wanted is not None and packages.files}
    added = (f"{name}={pin}" if (pin := pins.get(name)) else name for name in lacking)
    place = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else str(folder)
    job = JobSettings(
        program=line,
        folder=place,
        packages=(*packages.files, *packages.pins),
        added=tuple(added),
        synthetic_data=True,  # a workflow has no data sets
    )
    return job, others


def _fact_lines(facts: Iterable[Fact], absent: Iterable[str]) -> Iterable[str]:
    known = {fact.name: fact for fact in facts}
    for fact in [known[name] for name in _SHOWN if name in known][:_MOST_FACTS]:
        yield f"  {fact_text(fact)}"
    for file in absent:
        yield f"  {file} is not here"


def _used_packages(line: LaunchLine, folder: Path, facts: Iterable[Fact]) -> set[str]:
    """Return the packages of a stack that a program imports itself, that its launcher is of, or that its files configure."""
    used = {"torch", line.launcher, *("deepspeed" for fact in facts if fact.name == "zero_stage")}
    file = folder / line.program
    if not line.is_command and not line.is_module and file.is_file():
        used |= all_imports(file)
    return used & {*AXES}


def _usual_releases() -> dict[str, str]:
    return {name: spec for name, spec in DEFAULT_STACK.items() if isinstance(spec, str)}


def _locked_requirements() -> tuple[str, ...]:
    """Return what the default stack has, which ships with its lock."""
    settings = read_settings(start=Path(__file__).parent, environ={})
    planned = pipeline.plan_stacks(settings, pipeline.Choice(), pipeline.new_installer(settings))
    lock = locking.known_lock(planned.baseline, cache=locks_folder(settings))
    return lock.requirements if isinstance(lock, LockedStack) else ()


def _table_files(root: Path, job: JobSettings, say: Say) -> dict[str, str]:
    """Return the file that gets the job, with its whole new content; none if the repository has settings already."""
    file, table = own_table(root)
    if table is not None and file is not None:
        say(f"{file.name} has settings of dsregress already: they stay as they are")
        return {}
    if file is None:
        return {OWN_FILE: job_table(job)}
    before = file.read_text("utf-8")
    return {PYPROJECT: f"{before.rstrip()}\n\n{job_table(job)}"}


def _other_lines(others: list[FoundLaunch]) -> Iterable[str]:
    if others:
        yield f"{plural(len(others), 'other launch line')}; to choose one, in its folder: {commands.INIT_PROGRAM}"
    for one in others[:_MOST_LINES]:
        yield f"  {one.file}: {masked_launch_line(one.line)[:100]}"


def _write(root: Path, file: str, text: str, say: Say, *, dry_run: bool) -> bool:
    """Write a file whose content is all of ours or begins with what it had, and show what was added. Return False if it
    stays as it is."""
    place = root / file
    before = place.read_text("utf-8") if place.is_file() else ""
    added = text[len(before.rstrip()) :].strip("\n") if text.startswith(before.rstrip()) else ""
    if not added:
        say(f"{file} is there already: it stays as it is")
        return False
    say(f"{'would write' if dry_run else 'wrote'} {file}:")
    say("\n".join(f"    {line}" if line else "" for line in added.splitlines()))
    if not dry_run:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_file(str(place), text.encode())
    return True


def _to_run(*, is_framework: bool) -> list[str]:
    """Return the commands that run once here what the workflow runs."""
    return [commands.REGRESS_SOURCE] if is_framework else [commands.AUDIT, commands.REGRESS]


def _next_lines(*, is_framework: bool, is_placed: bool) -> Iterable[str]:
    yield "run it once here:"
    yield from (f"    {line}" for line in _to_run(is_framework=is_framework))
    yield "keep .dsregress/ and results/ out of git"
    if not is_placed:
        yield f"in {WORKFLOWS}, replace OWNER by the account that publishes the action"


def _own_repository() -> str:
    """Return the repository that built this package, ``owner/name``; empty if its metadata names none."""
    try:
        urls = importlib.metadata.metadata("dsregress").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    found = [re.fullmatch(r"Homepage, https://github\.com/(?P<name>[\w.-]+/[\w.-]+)", url) for url in urls]
    return next((one["name"] for one in found if one is not None), "")
