"""``bisect-step``: one step of git's own bisection."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from dsregress.bisect import candidates, questions
from dsregress.bisect.exact_tester import ExactTester
from dsregress.bisect.plan import SearchPlan, VersionTester
from dsregress.bisect.runner import VersionRunner
from dsregress.bisect.search import run_search
from dsregress.bisect.timed_tester import TimedTester
from dsregress.cli import options
from dsregress.cli.lines import print_text
from dsregress.cli.named_cells import one_cell
from dsregress.cli.progress import Progress
from dsregress.config.settings import read_settings
from dsregress.errors import UsageError
from dsregress.model import Verdict
from dsregress.run import pipeline, targets
from dsregress.run.repositories import open_repository
from dsregress.run.session import open_session
from dsregress.versions.stack_plans import spelled_package

#: Exit codes of `git bisect run`.
GOOD, BAD, UNDECIDED = 0, 1, 125


class KnownEnds(msgspec.Struct, frozen=True, kw_only=True):
    """The releases that a commit is compared with."""

    good: str
    bad: str


class TestedClone(msgspec.Struct, frozen=True, kw_only=True):
    """The clone whose checked-out commit is tested."""

    repository: str
    project: str | None  #: the folder of the configuration; None: the clone


@click.command("bisect-step")
@options.grouped(
    "known",
    KnownEnds,
    click.option("--good", required=True, metavar="VERSION", help="A good release, e.g. 0.15.4."),
    click.option("--bad", required=True, metavar="VERSION", help="A bad release, e.g. 0.16.0."),
)
@options.workload_options
@click.option("--metric", metavar="NAME", help="What to compare, as in `bisect`.")
@click.option(
    "--fixed", is_flag=True, help="Search for the fix: exit with 0 while the commit is bad, 1 once it is good."
)
@options.grouped(
    "tested",
    TestedClone,
    click.option(
        "--repository",
        default=".",
        show_default=True,
        metavar="PATH",
        help="The clone whose checked-out commit is tested.",
    ),
    click.option("--project", metavar="DIR", help="The folder with your pyproject.toml, if it is not the clone."),
)
@options.searched_options
@options.results_option
def bisect_step_command(
    known: KnownEnds,
    workload: options.WorkloadOptions,
    metric: str | None,
    fixed: bool,
    tested: TestedClone,
    searched: options.SearchedPackage,
    results: str | None,
) -> int:
    """Build and measure the checked-out commit, and exit with the code that `git bisect run` expects.

    A commit is compared with a good and a bad release. These are measured once and then stored.
    Uncommitted changes are ignored.

    \b
    Examples:
      git bisect start v0.16.0 v0.15.4
      git bisect run dsregress bisect-step --project ~/dsregress --good 0.15.4 --bad 0.16.0 --scenario llama_zero3_backward

    \b
    Exit codes: 0 good; 1 bad; 125 undecided (it does not install, does not import, or fails elsewhere); 128 wrong
    usage, or a failure of the harness or the machine, which ends git's bisection.
    """
    settings = read_settings({"results": results}, start=Path(tested.project) if tested.project else None)
    installer = pipeline.new_installer(settings)
    package = spelled_package(searched.package or targets.varied_package(settings), settings.stack)
    question = questions.parse_question(metric) if metric else None
    settings = candidates.with_fixed(settings, package, searched.fixed, searched.stack, installer)
    ends = [candidates.one_release(package, end, installer) for end in (known.good, known.bad)]
    if ends[0] == ends[1]:
        raise UsageError(f"both ends are {ends[0]}", where="bisect-step", hint="name two releases")
    older, newer = sorted(ends, key=candidates.release_order)
    clone = open_repository(tested.repository, settings)
    releases = candidates.released(settings, installer, package, older, newer)
    good_release, bad_release = (releases[0 if end == older else -1] for end in ends)
    commit = candidates.one_commit(clone, package, clone.head(), good_release.name, releases[-1].stack)
    plan = SearchPlan(
        kind="commits", package=package, versions=(good_release, commit, bad_release), question=question, to=Verdict.BAD
    )  # fmt: skip
    cell = one_cell(settings, good_release.stack, workload)
    with Progress(brief=True) as progress, open_session(settings, (), progress, installer) as opened:
        runner = VersionRunner(opened, cell)
        is_timed = question is not None and question.is_timed
        tester: VersionTester = TimedTester(plan, runner) if is_timed else ExactTester(plan, runner)
        result = run_search(plan, tester, runner)
    probe = result.probes[1]
    assert probe.answer is not None
    print_text(f"{probe.name} ({probe.about}): {probe.answer.value}, {result.metric}: {probe.text}")
    if probe.answer is Verdict.UNKNOWN:
        return UNDECIDED
    return BAD if (probe.answer is Verdict.BAD) != fixed else GOOD
