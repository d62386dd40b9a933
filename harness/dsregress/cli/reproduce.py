"""``reproduce``: a finding without the harness, in one short script."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from dsregress.bisect import candidates, questions
from dsregress.cli import options
from dsregress.cli.named_cells import declared_scenario, named_cell
from dsregress.cli.named_files import read_named
from dsregress.cli.output import write_answer
from dsregress.cli.progress import Progress
from dsregress.cli.stored_results import measuring_settings
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.errors import EXIT_OK, EXIT_REGRESSION, UsageError
from dsregress.model import AXES, Cell, Result, Stack, WorkloadParts
from dsregress.probe.factors import BY_NAME as FACTORS
from dsregress.probe.scenario import Scenario, ScenarioError
from dsregress.report import stored_answers
from dsregress.report.answers import reproduce_answer as report
from dsregress.report.answers.upstream_issue import issue_text
from dsregress.report.known_answers import known_answers
from dsregress.report.stored_answers import StoredReproduction
from dsregress.report.upstream_changes import in_words, introduced
from dsregress.reproduce.cells import DEVICE
from dsregress.reproduce.factors import SIMPLEST_OF
from dsregress.reproduce.reduction import Condition, Reduced
from dsregress.reproduce.reproduction import (
    ReducedFinding,
    ReleaseAnswer,
    Reproduction,
    Request,
    reproduce,
    write_script,
)
from dsregress.run import pipeline, targets
from dsregress.run.session import open_session
from dsregress.store import Store, newest_by_cell
from dsregress.versions import commits
from dsregress.versions.stack_plans import of_id, spelled_package


class AskedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the cell's findings is meant, and the release to compare with."""

    metric: str | None  #: None: the most serious
    against: str | None  #: None: the nearest stored one without the finding


class WrittenScript(msgspec.Struct, frozen=True, kw_only=True):
    """The script, and what is found out and printed beside it."""

    output: str
    conditions: bool
    issue: bool

    @property
    def name(self) -> str:
        """Return the script's file name."""
        return Path(self.output).name

    def check_name(self) -> None:
        """Raise UsageError for a name that torchrun would read as an option: it runs the script by its name, after its own
        options."""
        if self.name in ("", "..") or self.name.startswith("-"):
            hint = "name a file, e.g. reproduce.py"
            raise UsageError(f"not a valid script name: {self.output}", where="--output", hint=hint)


@click.command("reproduce")
@click.argument("finding", metavar="FINDING")
@options.grouped(
    "asked",
    AskedFinding,
    click.option(
        "--metric", metavar="NAME", help="Which of the cell's findings, as in `bisect`. Default: the most serious."
    ),
    click.option(
        "--against", metavar="VERSION", help="A release without the finding. Default: the nearest stored one."
    ),
)
@options.grouped(
    "written",
    WrittenScript,
    click.option(
        "--output",
        type=options.OUTPUT_FILE,
        metavar="FILE",
        default="reproduce.py",
        show_default=True,
        help="The script to write.",
    ),
    click.option(
        "--conditions/--no-conditions",
        default=True,
        help="Find which factors the finding needs. This takes most of the time.",
    ),
    click.option("--issue", is_flag=True, help="Print Markdown for the upstream tracker instead."),
)
@options.searched_options
@options.results_option
@options.json_option
def reproduce_command(
    finding: str,
    asked: AskedFinding,
    written: WrittenScript,
    searched: options.SearchedPackage,
    results: str | None,
    json_file: str | None,
) -> int:
    """Write a script that shows a finding with the released packages alone, and say what the finding needs.

    FINDING is a cell, as in `explain`: VERSION/scenario/variant/device, an id, or a glob that matches one stored cell.
    The cell's parameters are simplified as long as the finding stays. Each trial is measured in this release and in one
    without the finding. The script is made from the parameters that are left, and is run in both releases before it is
    written.

    FINDING may also be a file that --json wrote. Its script is written again, by this version, and run in the same
    releases; the conditions stay.

    \b
    Examples:
      dsregress reproduce 0.18.3/llama_zero3_backward/gradient_accumulation_steps=4,zero_stage=1/cpu
      dsregress reproduce 0.16.4/llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu \\
          --metric backward.device_retained_bytes
      dsregress reproduce 0.19.3/llama_zero3_backward/gradient_clipping=none/cpu \\
          --metric configuration:deepspeed.gradient_clipping
      dsregress reproduce 0.17.5/llama_zero3_backward/world_size=4,hpz_partition_size=2/cpu --issue --results sweep.jsonl.gz

    \b
    Exit codes: 0 the script shows the finding; 1 it does not, or none can be written; 2 no such cell; 3 the harness failed;
    4 the finding does not appear when it is measured.
    """
    _check_is_finding(finding)
    written.check_name()
    settings = msgspec.structs.replace(options.load_settings(results=results), executor="local")
    store = Store(settings.results)
    settings = measuring_settings(settings, store)
    installer = pipeline.new_installer(settings)
    earlier = _earlier(finding) if finding.endswith(".json") else None
    if earlier is not None:
        _check_is_open(finding, earlier, asked, searched)
        settings = _in_its_stack(settings, earlier)
        finding, asked = earlier.cell, AskedFinding(metric=earlier.metric, against=earlier.good)
    package = _compared_package(settings, searched.package if earlier is None else earlier.package, asked)
    _check_not_fixed(package, searched, finding)
    settings = candidates.with_fixed(settings, package, searched.fixed, searched.stack, installer)
    cell = named_cell(finding, settings, store, installer, {}, package)
    simplest = _simplest(settings, cell, finding)
    if earlier is not None:
        again = _reduced(earlier, cell, simplest, _versions_of(cell, package), written.name)
        measured = functools.partial(write_script, again, simplest)
    else:
        request = _request(cell, package, asked, written, store, settings, installer)
        measured = functools.partial(reproduce, request, simplest)
    with Progress(brief=True) as progress, open_session(settings, (), progress, installer) as opened:
        found = measured(opened)
    _write_reproduction(found, settings, written, json_file)
    return EXIT_OK if found.is_confirmed else EXIT_REGRESSION


def _compared_package(settings: Settings, named: str | None, asked: AskedFinding) -> str:
    """Return the package whose releases are compared. Raise UsageError if another one than the configured has none."""
    package = spelled_package(named or targets.varied_package(settings), settings.stack)
    if package != targets.varied_package(settings) and not asked.against:
        raise UsageError(f"no release of {package} to compare with", where="--against", hint="name one")
    return package


def _versions_of(cell: Cell, package: str) -> Callable[[str], Stack]:
    """Return a function from a version of the package to the cell's stack with it."""

    def in_release(version: str) -> Stack:
        return commits.stack_of(cell.stack, package, version, label=version)

    return in_release


def _request(
    cell: Cell,
    package: str,
    asked: AskedFinding,
    written: WrittenScript,
    store: Store,
    settings: Settings,
    installer: Installer,
) -> Request:
    """Return the request to reproduce a stored finding."""
    in_release = _versions_of(cell, package)
    other = in_release(candidates.one_release(package, asked.against, installer)) if asked.against else None
    return Request(
        cell=cell,
        question=questions.parse_question(asked.metric) if asked.metric else None,
        against=other,
        baseline=other or in_release(settings.baseline),
        package=package,
        stored=_results_by_version(store, cell, package),
        detail_of=pipeline.details_of([store, Store(settings.results)]),
        file=written.name,
        conditions=written.conditions,
    )


def _write_reproduction(found: Reproduction, settings: Settings, written: WrittenScript, json_file: str | None) -> None:
    """Print the answer, and write it and the script, if there is one, to their files."""
    script = found.script
    write_answer(
        lambda: issue_text(found, _introduced(found, settings)) if written.issue else report.reproduction_text(found),
        (json_file, lambda: report.reproduction_json(found)),
        (written.output if script is not None else None, lambda: script.text if script is not None else ""),
    )


def _check_not_fixed(package: str, searched: options.SearchedPackage, finding: str) -> None:
    """Raise UsageError if an option fixes the version of the package whose releases are compared."""
    if package in searched.fixed:
        option = f"--{package}" if package in AXES else "--with"
        hint = f"its releases are the VERSION of {finding} and --against; to vary another package, name it: --package"
        raise UsageError(f"{package} is the package being compared", where=option, hint=hint)


def _simplest(settings: Settings, cell: Cell, finding: str) -> Scenario:
    """Return the simplest scenario of the cell's framework. Raise UsageError for a framework that scripts do not use."""
    if cell.framework not in SIMPLEST_OF:
        hint = "scripts train by DeepSpeed's own engine, or by transformers' Trainer"
        raise UsageError(f"{cell.scenario} trains by {cell.framework}", where=finding, hint=hint)
    return declared_scenario(settings, SIMPLEST_OF[cell.framework])


def _check_is_finding(text: str) -> None:
    """Raise UsageError if the text names a file that is not an answer."""
    path = Path(text)
    if text.endswith(".json") or not path.is_file():
        return
    answer = path.with_suffix(".json")
    hint = "name a cell, VERSION/scenario/variant/device, or a file that `reproduce CELL --json FILE` wrote"
    if path.suffix == ".py" and answer.is_file():
        hint = f"name the answer beside it: {answer}"
    elif text.endswith((".jsonl", ".jsonl.gz")):
        hint = f"name one of its cells, and the file by an option: VERSION/scenario/variant/device --results {text}"
    raise UsageError("not a finding: this is a file", where=text, hint=hint)


def _check_is_open(
    file: str, earlier: StoredReproduction, asked: AskedFinding, searched: options.SearchedPackage
) -> None:
    """Raise UsageError if an option sets something that the answer already has."""
    packages = {f"--{name}" if name in AXES else f"--with {name}": spec for name, spec in searched.fixed.items()}
    if of_id(earlier.cell.partition("/")[0]) is None:
        packages = {}  # the answer does not name them
    given = {
        "--metric": asked.metric,
        "--against": asked.against,
        "--package": searched.package,
        "--stack": searched.stack,
    }
    if taken := [option for option, value in {**given, **packages}.items() if value]:
        cell = f"{earlier.bad}/{earlier.cell.partition('/')[2]}"
        hint = f"drop the option, or reproduce the cell with it: {cell}"
        raise UsageError(f"{file} already sets it", where=taken[0], hint=hint)


def _in_its_stack(settings: Settings, earlier: StoredReproduction) -> Settings:
    """Return the settings with the packages that an answer was measured with, if it names them all."""
    stack = of_id(earlier.cell.partition("/")[0])
    if stack is None:
        return settings
    framework = targets.varied_package(settings)
    varied = framework if framework in stack.versions else earlier.package
    table = {name: (version,) if name == varied else version for name, version in stack.versions.items()}
    return msgspec.structs.replace(settings, stack=table, python=stack.python)


def _earlier(file: str) -> StoredReproduction:
    """Return the answer in a file. Raise UsageError."""
    problems: list[str] = []
    hint = "name a file that `reproduce CELL --json FILE` wrote"
    content = read_named(file, hint=hint)
    found = stored_answers.read_answers([(file, content)], lambda _, why: problems.append(why)).reproductions
    if not found:
        raise UsageError("; ".join(problems) or "not an answer of `reproduce`", where=file, hint=hint)
    return found[0]


def _reduced(
    earlier: StoredReproduction, cell: Cell, simplest: Scenario, in_release: Callable[[str], Stack], file: str
) -> ReducedFinding:
    """Return the reusable parts of an earlier answer. Raise UsageError if it is about another cell."""
    if cell.id != earlier.cell:
        hint = "name its packages: --torch, --transformers and so on"
        raise UsageError(f"the answer belongs to another stack: {earlier.cell}", where=cell.id, hint=hint)
    try:
        parameters = simplest.resolve(earlier.smallest.variant, DEVICE)
    except ScenarioError as error:
        hint = "reproduce the finding again"
        raise UsageError(
            f"its smallest cell no longer exists: {error}", where=earlier.smallest_cell, hint=hint
        ) from None
    kept = {
        one.factor: one for one in (*earlier.needs, *earlier.indifferent, *earlier.not_known) if one.factor in FACTORS
    }
    conditions = tuple(
        Condition(
            factor=FACTORS[name],
            value=FACTORS[name].value_in(parameters),
            shown=one.shown,
            hidden=one.hidden,
            unknown=one.unknown,
        )
        for name, one in kept.items()
    )
    return ReducedFinding(
        cell=cell,
        question=earlier.question,
        package=earlier.package,
        good=in_release(earlier.good),
        later=in_release(earlier.runs[2].version) if len(earlier.runs) > 2 else None,
        reduced=Reduced(parameters=parameters, conditions=conditions),
        history=tuple(ReleaseAnswer(version=one.version, answer=one.answer, text=one.text) for one in earlier.releases),
        trials=earlier.trials,
        file=file,
    )


def _introduced(found: Reproduction, settings: Settings) -> str:
    """Return the change that introduced the fault, in words, by the stored answers of `bisect` that reports are joined
    with."""

    def parameters_of(workload: WorkloadParts) -> dict[str, object] | None:
        try:
            return declared_scenario(settings, workload.scenario).resolve(workload.variant, DEVICE)
        except (UsageError, ScenarioError):  # of another project, or of a scenario that has gone
            return None

    known = known_answers(settings.results, settings.reproducers).stored
    change = introduced(found, known.bisections, parameters_of)
    return in_words(change) if change is not None else ""


def _results_by_version(store: Store, cell: Cell, package: str) -> dict[str, Result]:
    """Return version -> the newest stored result of the cell's workload, in stacks that otherwise are the cell's."""
    series = commits.stack_of(cell.stack, package, "")
    return {
        result.cell.stack.versions[package]: result
        for result in newest_by_cell(store.load(scenario=cell.scenario).results).values()
        if result.cell.workload == cell.workload and commits.stack_of(result.cell.stack, package, "") == series
    }
