"""Options that several commands share, and the typed values that commands receive for them.

A single option is a decorator that passes one parameter (``results: str | None``). A group of options passes one frozen
value: under ``@stack_options`` a command takes ``stacks: StackOptions``.

What measures is imported where an option needs it: it takes a second, and commands that only answer need none of it.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
import msgspec

from dsregress.advice.gpus import Card, card
from dsregress.cli.lines import print_note
from dsregress.config.search_path import with_search_path
from dsregress.config.settings import MOST_ROUNDS, FailOn, Settings, read_settings
from dsregress.errors import UsageError
from dsregress.model import AXES
from dsregress.probe.border.masking import masked_launch_line
from dsregress.run.available_workloads import Program
from dsregress.run.cell_matrix import Selection
from dsregress.run.shell_launches import Launch, SeveralLaunches, launch_of_shell, needs_shell
from dsregress.versions import stack_plans
from dsregress.wording import workload_words
from dsregress.wording.language import ENGLISH, LANGUAGES
from dsregress.wording.quantities import listing

if TYPE_CHECKING:
    from dsregress.run.pipeline import Choice

_GIB = 1 << 30

#: A file that a command writes. What could not be written is said before anything is measured.
OUTPUT_FILE = click.Path(dir_okay=False, writable=True, allow_dash=True)

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Adds an option, or a group of them, to a command.
_AddOption = Callable[[Callable[..., Any]], Callable[..., object]]


class Number(click.FloatRange):
    """A number within a range, which NaN and infinity are not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raise click.BadParameter if it is not finite or not in the range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in some releases of click alone
    """A duration in seconds, from ``90s``, ``30m`` or ``2h``."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds. Raise click.BadParameter."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh])", str(value))
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is not a duration: write e.g. 90s, 30m or 2h", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]


class StackOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The stacks that a command compares."""

    versions: dict[str, str]  #: package -> spec, of the packages that were given
    stack: str | None  #: a named stack of the configuration
    baseline: str | None
    pythons: tuple[str, ...] = ()  #: existing interpreters

    @property
    def names_releases(self) -> bool:
        """True if any stack was named; if not, the configured ones are meant."""
        return bool(self.versions) or self.stack is not None or bool(self.pythons)

    def choice(self) -> Choice:
        """Return the choice for `dsregress.run.pipeline.plan_stacks`."""
        from dsregress.run.pipeline import Choice

        return Choice(versions=self.versions, stack=self.stack, baseline=self.baseline, pythons=self.pythons)

    def measured_choice(self, package: str, published: stack_plans.ReleaseIndex) -> Choice:
        """Return the choice for commands that compare nothing: only the requested stacks, with the first release of
        ``package`` as the baseline. Raise UsageError."""
        from dsregress.run.pipeline import Choice

        if self.pythons:
            return self.choice()
        baseline = self.baseline
        if baseline is None and package in self.versions:
            baseline = f"{package}=={stack_plans.resolve(package, self.versions[package], published)[0]}"
        return Choice(versions=self.versions, stack=self.stack, baseline=baseline)


class WorkloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one workload."""

    scenario: str | None  #: None: the program
    variant: str
    device: str | None  #: None: cpu if the scenario runs there, else sim


class SearchedPackage(msgspec.Struct, frozen=True, kw_only=True):
    """The package whose versions are searched, and the stack around it."""

    package: str | None  #: None: the configured one
    stack: str | None  #: a named stack of the configuration
    fixed: dict[str, str]  #: other package -> its one version in all stacks
    left_out: tuple[str, ...] = ()  #: packages of the configured stack that this one is without


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The reader's job, as far as files and options state it."""

    configs: tuple[str, ...] = ()
    program: Program | None = None
    card: Card | None = None
    ranks: int | None = None
    said: tuple[str, ...] = ()  #: NAME=VALUE


class TimingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run in time and rounds; None: as configured."""

    budget_s: float | None = None
    rounds: int | None = None
    timeout_s: float | None = None


class ExecutorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The executor and its settings; None: as configured."""

    executor: str | None = None
    ray_address: str | None = None
    image_base: str | None = None


class ReusedResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results that an answer reuses."""

    results: str | None  #: a folder or a bundle; None: as configured
    fresh: bool  #: none of them


class AnswerFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that an answer is written to, ``-`` being stdout."""

    json: str | None = None
    markdown: str | None = None
    svg: str | None = None


class ReportFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a comparison is written to, ``-`` being stdout; and how much a terminal shows."""

    json: str | None = None
    markdown: str | None = None
    html_folder: str | None = None
    exports: tuple[tuple[str, str], ...] = ()  #: (format of `dsregress.report.comparison.exports`, file)
    details: bool = False
    language: str = ENGLISH  #: of the first screen
    is_shown: bool = True  #: False: stdout has another answer


def grouped(parameter: str, make: Callable[..., object], *options: _AddOption) -> Callable[[_Command], _Command]:
    """Return a decorator that adds parameters, and groups of them, and passes ``parameter=make(**values)`` instead."""

    def collected(**values: object) -> object:
        return make(**values)

    made: Any = collected
    for option in reversed(options):
        made = option(made)
    added: list[click.Parameter] = made.__click_params__  # in the reverse of the order in which help shows them

    def decorate(command: _Command) -> _Command:
        @functools.wraps(command)
        def with_group(*args: object, **values: object) -> object:
            own = {option.name or "": values.pop(option.name or "") for option in added}
            return command(*args, **values, **{parameter: made(**own)})

        with_group.__click_params__ = [*getattr(command, "__click_params__", []), *added]  # type: ignore[attr-defined]
        return with_group  # type: ignore[return-value]

    return decorate


def _stack_options(
    *,
    baseline: str | None,
    stack: str | None,
    others: tuple[str, ...],
    pythons: tuple[str, ...] = (),
    **axes: str | None,
) -> StackOptions:
    return StackOptions(versions=requested_versions(axes, others), stack=stack, baseline=baseline, pythons=pythons)


def _searched_package(
    *, package: str | None, stack: str | None, others: tuple[str, ...], **axes: str | None
) -> SearchedPackage:
    return SearchedPackage(package=package, stack=stack, fixed=requested_versions(axes, others))


def _report_files(
    *,
    json_file: str | None,
    markdown_file: str | None,
    html_folder: str | None,
    exports: tuple[str, ...],
    details: bool,
    language: str,
) -> ReportFiles:
    from dsregress.report.comparison.exports import FORMATS

    if language != ENGLISH and (details or html_folder or json_file or markdown_file or exports):
        print_note("--language is of the first screen: --details and files are in English")
    formats = []
    for text in exports:
        name, _, file = text.partition("=")
        if name not in FORMATS or not file:
            raise UsageError(
                f"not a format with its file: {text!r}", where="--export", hint=f"formats: {', '.join(FORMATS)}"
            )
        try:
            OUTPUT_FILE.convert(file, None, None)
        except click.BadParameter as refused:
            raise UsageError(refused.message.rstrip("."), where="--export", hint="choose a writable file") from None
        formats.append((name, file))
    return ReportFiles(
        json=json_file,
        markdown=markdown_file,
        html_folder=html_folder,
        exports=tuple(formats),
        details=details,
        language=language,
    )


#: ``trl``, ``trl=0.24.0``, and as pip has it: ``trl==0.24.0``, ``trl>=0.23``.
_WITH = re.compile(r"\s*([^\s=<>!~]+)\s*(?:(?:=\s*(?=[^=\s])|(?=[=<>!~]=|[<>]))(.+))?", re.DOTALL)


def requested_versions(axes: dict[str, str | None], others: Sequence[str]) -> dict[str, str]:
    """Return package -> spec, from the options of single packages and from ``--with``. Raise UsageError."""
    versions = {package: spec for package in AXES if (spec := axes.get(package))}
    for text in others:
        found = _WITH.fullmatch(text)
        if found is None:
            raise UsageError(
                f"not a package with its releases: {text!r}", where="--with", hint="write PACKAGE or PACKAGE=SPEC"
            )
        name, bracket, extras = found[1].partition("[")
        package = stack_plans.spelled_package(name, versions) + bracket + extras
        spec = (found[2] or stack_plans.NEWEST_THAT_FITS).strip()
        if package in versions:
            hint = f"write all its versions in one option: {package}={versions[package]},{spec}"
            raise UsageError(f"{package} is given twice", where="--with", hint=hint)
        versions[package] = spec
    return versions


def _with_option(help: str) -> Callable[[_Command], _Command]:
    """Add ``--with PACKAGE[=SPEC]``, repeatable; passes ``others``."""
    return click.option("--with", "others", multiple=True, metavar="PACKAGE[=SPEC]", help=help)


def _baseline_option(command: _Command) -> _Command:
    help = "The version to compare the others with, of a package that varies."
    return click.option("--baseline", metavar="VERSION|NAME==VERSION", help=help)(command)


def _stack_option(command: _Command) -> _Command:
    return click.option("--stack", metavar="NAME", help="A named stack of the configuration.")(command)


def _axis_options(metavar: str, help: Callable[[str], str]) -> Callable[[_Command], _Command]:
    """Add an option for each package that a stack names, DeepSpeed first; passes each package's value."""

    def decorate(command: _Command) -> _Command:
        for package in AXES:
            command = click.option(f"--{package}", metavar=metavar, help=help(package))(command)
        return command

    return decorate


def release_options(command: _Command, *further: _AddOption) -> _Command:
    """Add ``--baseline``, ``--stack``, ``--with``, and an option per package; passes ``stacks: StackOptions``."""

    def releases(package: str) -> str:
        examples = ": 0.16.4, '0.16.*', '>=0.16,<0.17', latest" if package == AXES[-1] else ""
        return f"Releases of {package} to compare{examples}."

    others = _with_option(
        "Like the options below, for any package of the index. trl=0.24.0 adds that release to all stacks, trl the newest "
        "one that goes with all; trl=0.23.0,0.24.0 compares the two. Repeatable."
    )
    own = (_baseline_option, _stack_option, others, _axis_options("SPEC", releases))
    return grouped("stacks", _stack_options, *own, *further)(command)


def stack_options(command: _Command) -> _Command:
    """Add the options of `release_options`, and ``--python``; passes ``stacks: StackOptions``."""
    return release_options(command, python_option)


def python_option(command: _Command) -> _Command:
    """Add ``--python``; passes ``pythons``."""
    return click.option(
        "--python",
        "pythons",
        multiple=True,
        metavar="PATH",
        help="Use an existing environment as a stack: its interpreter, or its folder. Nothing is installed into it. "
        "Repeatable; the first one is the baseline, for named releases too.",
    )(command)


def selection_options(command: _Command) -> _Command:
    """Add ``--scenario``, ``--variant``, ``--device`` as globs; passes ``selection: Selection``."""
    return grouped(
        "selection",
        Selection,
        click.option("--scenario", "scenarios", multiple=True, metavar="GLOB", help="Scenarios to run. Repeatable."),
        click.option(
            "--variant",
            "variants",
            multiple=True,
            metavar="GLOB",
            help="Variants to run: a glob, or parameters such as 'zero_stage=2,dtype=fp32'. Repeatable.",
        ),
        click.option(
            "--device",
            "devices",
            multiple=True,
            metavar="sim|cpu|cuda|auto",
            help="Device modes to run in. Repeatable.",
        ),
    )(command)


def workload_options(command: _Command) -> _Command:
    """Add ``--scenario``, ``--variant``, ``--device`` of exactly one workload; passes ``workload: WorkloadOptions``."""
    return grouped(
        "workload",
        WorkloadOptions,
        click.option("--scenario", metavar="NAME", help="The scenario, by its name in `scenarios`."),
        click.option(
            "--variant",
            default="base",
            show_default=True,
            metavar="VARIANT",
            help="A declared variant, or parameters such as 'gradient_checkpointing=non_reentrant,model=llama-tiny'.",
        ),
        click.option(
            "--device",
            metavar="sim|cpu|cuda",
            help="Device mode to run in. Default: cpu if the scenario runs there, else sim; a program runs in sim.",
        ),
    )(command)


def _given_program(*, line: str | None, ranks: int | None = None, **options: Any) -> Program | None:
    launch = _launch(line or "")
    given = Program(line=launch.line, folder=launch.folder, ranks=ranks, written=launch.written, **options)
    if line is not None:
        return given
    if given.set_options:
        flag = f"--{next(iter(given.set_options)).replace('_', '-')}"
        raise UsageError(f"{flag} needs --program", where="command line", hint="it sets how a program runs")
    return None


def _launch(line: str) -> Launch:
    """Return the launch that a line comes to. Raise UsageError."""
    if line == workload_words.OPEN_LAUNCH_LINE:
        hint = "write what starts it in its place, e.g. 'torchrun --nproc_per_node 8 train.py'"
        raise UsageError("stands for your program, and does not name it", where="--program", hint=hint)
    folder = Path.cwd()
    line = with_search_path(line, folder) if line else ""
    if not needs_shell(line):
        return Launch(line, str(folder))
    try:
        launch = launch_of_shell(line, folder)
    except SeveralLaunches as several:
        for each in several.lines:
            print_note(each)
        first = several.first_that_trains()
        if first is None:
            raise
        print_note(
            f"--program starts {len(several.lines)} programs: the first that trains is taken; give another line for it"
        )
        launch = first
    where = f" in {os.path.relpath(launch.folder, folder)}" if launch.folder != str(folder) else ""
    print_note(f"--program starts{where}: {masked_launch_line(launch.line)}")
    if launch.written:
        names = [name for name, _ in launch.written]
        print_note(f"its script writes {listing(names, 5)}, which each run finds")
    if launch.filled:
        values = [f"{name}={value}" for name, value in launch.filled]
        print_note(f"as on one node: {' '.join(values)}; another value can be set before the line")
    if launch.empty:
        print_note(f"left out, as no variable fills it: {' '.join(launch.empty)}; --ranks N sets the number of ranks")
    return launch


def launch_in(folder: str, line: str) -> str:
    """Return the launch line that ``line`` comes to. Raise UsageError if it launches in another folder."""
    launch = _launch(line)
    if launch.folder != folder:
        raise UsageError(f"starts in {launch.folder}", where="--then", hint="it must start where --program does")
    return launch.line


_DEFAULTS = Program(line="", folder="")


def _line_option(command: _Command) -> _Command:
    return click.option(
        "--program",
        "line",
        metavar="LINE",
        help="Your own training program instead of a scenario, given by its launch line: 'torchrun train.py --model qwen', "
        "'accelerate launch ...', 'deepspeed ...', 'trl sft ...', 'llamafactory-cli train x.yaml'.",
    )(command)


def _ranks_option(help: str) -> Callable[[_Command], _Command]:
    return click.option("--ranks", type=click.IntRange(1, 100_000), metavar="N", help=help)


def program_options(command: _Command) -> _Command:
    """Add ``--program`` and its companions; passes ``program: Program | None``."""
    ranks = _ranks_option("Number of the program's ranks. Default: what its launch line says, else 1.")
    gpu = click.option(
        "--gpu", default=_DEFAULTS.gpu, show_default=True, metavar="NAME", help="GPU that the program sees."
    )
    return program_beside_ranks_options(command, ranks, gpu)


def program_beside_ranks_options(command: _Command, *further: _AddOption) -> _Command:
    """Add the same for a command with options ``--ranks`` and ``--gpu`` of its own."""
    return grouped(
        "program",
        _given_program,
        _line_option,
        *further,
        click.option(
            "--rank",
            default=_DEFAULTS.rank,
            metavar="R|all-kinds",
            help="Which of the program's ranks sim simulates. all-kinds: the first, second, middle and last; the worst is "
            f"reported. Default: {_DEFAULTS.rank}.",
        ),
        click.option(
            "--steps",
            type=click.IntRange(0, 1000),
            default=_DEFAULTS.steps,
            metavar="N",
            help=f"Optimizer steps of the program before the measured one. Default: {_DEFAULTS.steps}.",
        ),
        click.option(
            "--inference",
            is_flag=True,
            help="The program only generates, scores or evaluates; measure it until it ends.",
        ),
        click.option("--tiny", is_flag=True, help="Shrink the program's models: same code, two layers, small sizes."),
        click.option(
            "--synthetic-data", is_flag=True, help="Generate the program's data sets that are missing on this machine."
        ),
    )(command)


def program_option(command: _Command) -> _Command:
    """Add ``--program`` alone, for a command that runs nothing: it finds what was measured of a program."""
    return grouped("program", _given_program, _line_option)(command)


def _job_options(*, line: str | None, card_name: str | None, **options: Any) -> JobOptions:
    return JobOptions(program=_given_program(line=line), card=None if card_name is None else card(card_name), **options)


def job_options(command: _Command) -> _Command:
    """Add ``--config``, ``--program``, ``--gpu``, ``--ranks`` and ``--set``; passes ``job: JobOptions``."""
    return grouped(
        "job",
        _job_options,
        click.option(
            "--config",
            "configs",
            multiple=True,
            metavar="FILE",
            help="What the job is configured by: DeepSpeed's JSON, accelerate's YAML, settings of LLaMA-Factory, axolotl or "
            "TRL. Repeatable.",
        ),
        _line_option,
        click.option("--gpu", "card_name", metavar="NAME", help="The card that the job runs on, e.g. A100-40G."),
        _ranks_option("Number of the job's ranks."),
        click.option(
            "--set",
            "said",
            multiple=True,
            metavar="NAME=VALUE",
            help="A fact that no file states, as the answer asks for it: resume=yes, lora_rank=16. Repeatable.",
        ),
    )(command)


def searched_options(command: _Command) -> _Command:
    """Add ``--package``, ``--stack``, ``--with``, and the version of each other package; passes
    ``searched: SearchedPackage``."""
    return grouped(
        "searched",
        _searched_package,
        click.option("--package", metavar="NAME", help="The package to search. Default: deepspeed."),
        _stack_option,
        _with_option("The version of any other package in all stacks, e.g. trl=0.24.0. Repeatable."),
        _axis_options("VERSION", "The version of {} in all stacks, unless it is the one that is searched.".format),
    )(command)


def _language_choice(command: _Command) -> _Command:
    return click.option(
        "--language",
        type=click.Choice(LANGUAGES),
        default=ENGLISH,
        show_default=True,
        help="Language of the first screen; zh is Chinese. --details and files stay English.",
    )(command)


def _json_option(*name: str) -> Callable[[_Command], _Command]:
    return click.option("--json", *name, type=OUTPUT_FILE, metavar="FILE", help="Write JSON (- for stdout).")


def _markdown_option(*name: str) -> Callable[[_Command], _Command]:
    return click.option("--markdown", *name, type=OUTPUT_FILE, metavar="FILE", help="Write Markdown (- for stdout).")


def report_options(command: _Command) -> _Command:
    """Add ``--details``, ``--language``, ``--json``, ``--markdown``, ``--html``, ``--export``; passes
    ``files: ReportFiles``."""
    from dsregress.report.comparison.exports import FORMATS

    return grouped(
        "files",
        _report_files,
        click.option("--details", is_flag=True, help="Also print the tables and the evidence."),
        _language_choice,
        _json_option("json_file"),
        _markdown_option("markdown_file"),
        click.option("--html", "html_folder", metavar="DIR", help="Write a static site into DIR."),
        click.option(
            "--export",
            "exports",
            multiple=True,
            metavar="FORMAT=FILE",
            help=f"Write another format, e.g. junit=junit.xml. Formats: {', '.join(FORMATS)}. Repeatable.",
        ),
    )(command)


def fixed_option(help: str) -> Callable[[_Command], _Command]:
    """Add ``--with`` alone; passes ``fixed``, package -> spec."""
    return grouped("fixed", lambda others: requested_versions({}, others), _with_option(help))


def _rounds_choice(command: _Command) -> _Command:
    return click.option(
        "--rounds",
        type=click.IntRange(0, MOST_ROUNDS),
        metavar="N",
        help="A fixed number of timed rounds per cell; 0 for no timing. Default: as many as a verdict needs.",
    )(command)


def rounds_option(command: _Command) -> _Command:
    """Add ``--rounds`` alone; passes ``timing: TimingOptions``."""
    return grouped("timing", TimingOptions, _rounds_choice)(command)


def timing_options(command: _Command) -> _Command:
    """Add ``--budget``, ``--rounds``, ``--timeout``; passes ``timing: TimingOptions``."""
    return grouped(
        "timing",
        TimingOptions,
        click.option(
            "--budget",
            "budget_s",
            type=Duration(),
            metavar="DURATION",
            help="Time for timed rounds, which stop once every step time is known to be slower, faster or the same. "
            "Default: 3m.",
        ),
        _rounds_choice,
        click.option(
            "--timeout",
            "timeout_s",
            type=float,
            metavar="SECONDS",
            help="Stop a cell that sends no heartbeat for this long.",
        ),
    )(command)


results_option = click.option("--results", metavar="DIR", help="Folder of results, or a bundle to read.")
json_option = _json_option("json_file")


def reused_option(fresh_help: str) -> Callable[[_Command], _Command]:
    """Add ``--fresh``, with this help, and ``--results``; passes ``reused: ReusedResults``."""
    fresh = click.option("--fresh", is_flag=True, help=fresh_help)
    return grouped("reused", ReusedResults, fresh, results_option)


def answer_options(*, markdown: bool = False, svg: str = "") -> Callable[[_Command], _Command]:
    """Add ``--json``, and ``--markdown`` and ``--svg`` (with this help) if wanted; passes ``files: AnswerFiles``."""
    found = [_json_option()]
    if markdown:
        found.append(_markdown_option())
    if svg:
        found.append(click.option("--svg", type=OUTPUT_FILE, metavar="FILE", help=svg))
    return grouped("files", AnswerFiles, *found)


FAIL_ON_HELP = "Findings that make the exit code 1: any of memory,time,numerics,crash; or none."


def fail_on_option(help: str) -> Callable[[_Command], _Command]:
    """Add ``--fail-on``; passes ``fail_on``, a tuple of words, or None if it was not given."""

    def split_words(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...] | None:
        if text is None:
            return None
        found = () if text == "none" else tuple(word.strip() for word in text.split(","))
        if unknown := [word for word in found if word not in get_args(FailOn)]:
            hint = f"there are: {', '.join(get_args(FailOn))}; or none"
            raise UsageError(f"unknown kind of finding: {unknown[0]}", where="--fail-on", hint=hint)
        return found

    return click.option("--fail-on", metavar="WORDS", callback=split_words, help=help)


def card_option(help: str) -> Callable[[_Command], _Command]:
    """Add ``--gpu NAME``; passes ``card: Card | None``."""

    def found_card(context: click.Context, option: click.Parameter, name: str | None) -> Card | None:
        return None if name is None else card(name)

    return click.option("--gpu", "card", metavar="NAME", callback=found_card, help=help)


def cards_option(command: _Command) -> _Command:
    """Add ``--gpu NAME,...``; passes ``cards: tuple[Card, ...]``, each card once."""

    def found_cards(context: click.Context, option: click.Parameter, names: str) -> tuple[Card, ...]:
        return tuple({found.name: found for found in (card(name.strip()) for name in names.split(","))}.values())

    return click.option(
        "--gpu",
        "cards",
        required=True,
        metavar="NAME,...",
        callback=found_cards,
        help="Cards to fit, e.g. A800-80G,H100-80G.",
    )(command)


def overhead_option(command: _Command) -> _Command:
    """Add ``--overhead GIB``; passes ``overhead_bytes``."""
    from dsregress.advice.certainty import OVERHEAD_BYTES

    def in_bytes(context: click.Context, option: click.Parameter, gib: float) -> int:
        return round(gib * _GIB)

    return click.option(
        "--overhead",
        "overhead_bytes",
        type=Number(min=0, max=1_000_000),
        default=OVERHEAD_BYTES / _GIB,
        show_default=True,
        metavar="GIB",
        callback=in_bytes,
        help="Memory set aside on each card for the CUDA context and NCCL's buffers.",
    )(command)


def executor_options(command: _Command, *further: _AddOption) -> _Command:
    """Add ``--executor`` and ``--ray-address``; passes ``executor: ExecutorOptions``."""
    from dsregress.run.targets import EXECUTORS

    executors = "; ".join(f"{name}: {entry.summary}" for name, entry in EXECUTORS.items())
    return grouped(
        "executor",
        ExecutorOptions,
        click.option("--executor", metavar="|".join(EXECUTORS), help=f"Where to run cells. {executors}."),
        click.option(
            "--ray-address",
            metavar="HOST:PORT",
            help="With ray: the head of the cluster, or ray://HOST:10001 from outside it. Default: RAY_ADDRESS, else this "
            "machine.",
        ),
        *further,
    )(command)


def building_executor_options(command: _Command) -> _Command:
    """Add the same, and ``--image-base``."""
    image_base = click.option(
        "--image-base",
        metavar="IMAGE",
        help="With docker: base image of the stacks' images, e.g. python:3.11-slim.",
    )
    return executor_options(command, image_base)


as_of_option = click.option(
    "--as-of",
    metavar="DATE",
    help="Know only releases that the package index had on that day, e.g. 2025-02-20: of the configured stack and of "
    "everything that it requires, too.",
)


def load_settings(
    *,
    results: str | None = None,
    fail_on: tuple[str, ...] | None = None,
    timing: TimingOptions = TimingOptions(),  # noqa: B008  # frozen
    executor: ExecutorOptions = ExecutorOptions(),  # noqa: B008  # frozen
    as_of: str | None = None,
) -> Settings:
    """Return the settings with flags applied; None means that a flag was not given. Raise UsageError."""
    if timing.rounds is not None and timing.budget_s is not None:
        raise UsageError("--budget and --rounds cannot be combined", where="command line", hint="drop one of them")
    settings = read_settings(
        {
            "results": results,
            **msgspec.structs.asdict(timing),
            "fail_on": fail_on,
            "executor": executor.executor,
            "as_of": as_of,
        }
    )
    if timing.budget_s is not None:
        settings = msgspec.structs.replace(settings, rounds=None)  # of the configuration
    if executor.ray_address is not None:
        ray = msgspec.structs.replace(settings.ray, address=executor.ray_address)
        settings = msgspec.structs.replace(settings, ray=ray)
    if executor.image_base is not None:
        docker = msgspec.structs.replace(settings.docker, base=executor.image_base)
        settings = msgspec.structs.replace(settings, docker=docker)
    return settings
