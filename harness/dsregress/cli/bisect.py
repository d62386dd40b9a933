"""``bisect``: which release, and which commit, made the difference?"""

from __future__ import annotations

import click
import msgspec

from dsregress.bisect import bisection, candidates, questions, timed_tester
from dsregress.bisect.bisection import BisectRequest
from dsregress.bisect.runner import VersionRunner
from dsregress.cli import options, program_attempts
from dsregress.cli.named_cells import one_cell
from dsregress.cli.output import write_answer
from dsregress.cli.progress import Progress
from dsregress.compare.metrics import CONFIGURATION, DEVICE_RETAINED, HOST_CALLS, OUTCOME, PARAMETER_ERROR, STEP_TIME
from dsregress.config.settings import MOST_ROUNDS
from dsregress.errors import EXIT_NOTHING_MEASURED, EXIT_OK, UsageError
from dsregress.model import Verdict
from dsregress.report.answers import bisect_answer
from dsregress.run import pipeline, targets
from dsregress.run.available_workloads import Program
from dsregress.run.session import open_session
from dsregress.versions.stack_plans import spelled_package


class MarkedEnds(msgspec.Struct, frozen=True, kw_only=True):
    """The ends of a search, if it is known which one is bad."""

    good: str | None
    bad: str | None

    def from_older(self, *, fixed: bool) -> tuple[str, str]:
        """Return the older and the newer end. Raise UsageError if one is missing."""
        if not self.good or not self.bad:
            raise UsageError(f"no {'--bad' if self.good else '--good'} version", where="bisect", hint=_ENDS_HINT)
        return (self.bad, self.good) if fixed else (self.good, self.bad)


class SearchedCell(msgspec.Struct, frozen=True, kw_only=True):
    """The cell that is measured in each version: of a scenario, or of a program."""

    workload: options.WorkloadOptions
    program: Program | None


class SoughtChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change that is searched for, and how."""

    metric: str | None  #: None: the worst difference
    fixed: bool
    every: bool
    repository: str | None
    most_rounds: int

    def question(self) -> questions.Question | None:
        """Return the metric as a question. Raise UsageError, also if every change is wanted of a metric that needs many runs
        per version."""
        asked = questions.parse_question(self.metric) if self.metric else None
        if asked is not None and asked.is_timed and self.every:
            hint = f"use {HOST_CALLS.name}, which is exact"
            raise UsageError("--all cannot search by step time", where="bisect", hint=hint)
        return asked


_ENDS_HINT = "write bisect --good 0.15.0 --bad 0.16.4, or bisect 0.15.0..0.16.4"


@click.command("bisect")
@click.argument("span", required=False, metavar="[FIRST..LAST]")
@options.grouped(
    "ends",
    MarkedEnds,
    click.option("--good", metavar="VERSION", help="A good version, e.g. 0.15.0; with --repository also a commit."),
    click.option("--bad", metavar="VERSION", help="A bad version, e.g. 0.16.4."),
)
@options.grouped("searched_cell", SearchedCell, options.workload_options, options.program_options)
@options.grouped(
    "sought",
    SoughtChange,
    click.option(
        "--metric",
        metavar="NAME",
        help=f"What to compare: {DEVICE_RETAINED.flat_name('backward')}, {PARAMETER_ERROR.name}, {STEP_TIME.name}, "
        f"{OUTCOME.name}, {CONFIGURATION.name}:KEY, ... "
        "Default: the worst difference of --bad from --good.",
    ),
    click.option(
        "--fixed", is_flag=True, help="Find the first version that is good again; --bad is then the older one."
    ),
    click.option("--all", "every", is_flag=True, help="Find every change: test every version between the ends."),
    click.option(
        "--repository", metavar="URL|PATH", help="Continue down to the commit in this clone of the framework."
    ),
    click.option(
        "--most-rounds",
        type=click.IntRange(timed_tester.AT_ONCE, MOST_ROUNDS),
        default=timed_tester.MOST_ROUNDS,
        show_default=True,
        metavar="N",
        help=f"Maximum number of timed rounds per version, for --metric {STEP_TIME.name}.",
    ),
)
@options.searched_options
@options.as_of_option
@options.results_option
@options.json_option
def bisect_command(
    span: str | None,
    ends: MarkedEnds,
    searched_cell: SearchedCell,
    sought: SoughtChange,
    searched: options.SearchedPackage,
    as_of: str | None,
    results: str | None,
    json_file: str | None,
) -> int:
    """Find the first bad release between a good and a bad one, then the commit, with as few runs as possible.

    Use FIRST..LAST instead of --good and --bad if you do not know which end is bad. If both ends agree, the search looks
    for a fault that came and went between them. Stored results are used first. An interrupted search continues where it
    stopped.

    \b
    Examples:
      dsregress bisect --scenario llama_zero3_backward --variant gradient_checkpointing=non_reentrant \\
          --good 0.15.0 --bad 0.16.4
      dsregress bisect --scenario llama_zero3_backward --bad 0.16.4 --good 0.16.9 --fixed \\
          --metric backward.device_retained_bytes
      dsregress bisect 0.15.0..0.16.9 --scenario llama_zero3_backward --variant gradient_checkpointing=non_reentrant --all
      dsregress bisect --good 0.15.4 --bad 0.16.0 --scenario llama_zero3_backward --repository ~/src/DeepSpeed
      dsregress bisect --package transformers --good 4.48.3 --bad 4.57.6 --scenario qwen_zero3_backward --metric outcome
      dsregress bisect --package trl 0.22.0..0.24.0 --scenario trl_qwen2_5_7b_lora --device sim

    \b
    Exit codes: 0 found, or nothing changes; 2 the ends cannot be searched (swapped, equal, without a difference,
    unknown); 3 the harness or the machine failed (a full disk, a killed process); 4 undecided: the remaining versions are
    printed.
    """
    settings = options.load_settings(results=results, as_of=as_of)
    installer = pipeline.new_installer(settings)
    package = spelled_package(searched.package or targets.varied_package(settings), settings.stack)
    question = sought.question()
    first, last = _ends_of_span(span, ends, fixed=sought.fixed)
    program = searched_cell.program
    if not sought.repository:
        program, searched = program_attempts.attempted_between(program, package, first, searched, settings)
    left_out = searched.left_out
    settings = candidates.with_fixed(settings, package, searched.fixed, searched.stack, installer, left_out=left_out)
    request = BisectRequest(
        package=package,
        first=first,
        last=last,
        question=question,
        to=Verdict.GOOD if sought.fixed else Verdict.BAD,
        every=sought.every,
        is_span=span is not None,
        repository=sought.repository,
        most_rounds=sought.most_rounds,
    )
    listed = bisection.list_candidates(request, settings, installer)
    cell = one_cell(settings, listed.versions[0].stack, searched_cell.workload, program)
    with Progress(brief=True) as progress, open_session(settings, (), progress, installer) as opened:
        found = bisection.bisect(request, listed, VersionRunner(opened, cell))
    code = EXIT_OK if found.is_decided else EXIT_NOTHING_MEASURED
    write_answer(
        lambda: bisect_answer.bisection_text(found), (json_file, lambda: bisect_answer.bisection_json(found, code))
    )
    return code


def _ends_of_span(span: str | None, ends: MarkedEnds, *, fixed: bool) -> tuple[str, str]:
    """Return the older and the newer end, as they were written. Raise UsageError."""
    if span is None:
        first, last = ends.from_older(fixed=fixed)
    else:
        first, dots, last = span.partition("..")
        if ends.good or ends.bad or not (first and dots and last):
            raise UsageError(f"not a span of versions: {span}", where="bisect", hint=_ENDS_HINT)
    if first == last:
        raise UsageError(f"both ends are {first}", where="bisect", hint="name two versions")
    return first, last
