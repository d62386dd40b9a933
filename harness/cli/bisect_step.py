"""``bisect-step``: one step of git's own bisection."""

from __future__ import annotations

from pathlib import Path

import click

from harness.bisect import candidates, questions
from harness.bisect.exact import ExactTester
from harness.bisect.plan import SearchPlan, VersionTester
from harness.bisect.runner import VersionRunner
from harness.bisect.search import run_search
from harness.bisect.timed import TimedTester
from harness.cli import options
from harness.cli.progress import Progress
from harness.cli.workload import one_cell
from harness.config.settings import load
from harness.errors import UsageError
from harness.model import Verdict
from harness.run import pipeline, targets
from harness.run.session import session

#: As `git bisect run` reads them.
GOOD, BAD, CANNOT_TELL = 0, 1, 125


@click.command("bisect-step")
@click.option("--good", required=True, metavar="VERSION", help="A release that is good, e.g. 0.15.4.")
@click.option("--bad", required=True, metavar="VERSION", help="A release that is bad, e.g. 0.16.0.")
@options.workload_options
@click.option("--metric", metavar="NAME", help="The question, as of `bisect`.")
@click.option("--fixed", is_flag=True, help="The other way round: 0 while it is bad, 1 once it is good.")
@click.option(
    "--repository", default=".", show_default=True, metavar="PATH", help="The clone whose checked-out commit is asked."
)
@click.option("--project", metavar="DIR", help="The folder with your pyproject.toml, where that is not the clone.")
@options.searched_options
@options.results_option
def command(
    good: str,
    bad: str,
    workload: options.WorkloadOptions,
    metric: str | None,
    fixed: bool,
    repository: str,
    project: str | None,
    searched: options.SearchedPackage,
    results: str | None,
) -> int:
    """Build the commit that is checked out, measure it, and exit as `git bisect run` wants it.

    A commit is good or bad as one release or another is; those two are measured once and then stored. Changes that are
    not committed are not seen.

    \b
    Examples:
      git bisect start v0.16.0 v0.15.4
      git bisect run dsregress bisect-step --project ~/dsregress --good 0.15.4 --bad 0.16.0 --scenario llama_zero3_backward

    \b
    Exit codes: 0 good, 1 bad, 125 cannot tell (it does not install, does not import, ends elsewhere), 128 the call is
    wrong or the harness failed, which ends git's bisection.
    """
    settings = load({"results": results}, start=Path(project) if project else None)
    package = searched.package or targets.varied_package(settings)
    question = questions.parse(metric) if metric else None
    settings = candidates.with_fixed(settings, package, searched.fixed, searched.stack)
    installer = pipeline.new_installer(settings)
    ends = [candidates.one_release(package, end, installer) for end in (good, bad)]
    if ends[0] == ends[1]:
        raise UsageError(f"both ends are {ends[0]}", where="bisect-step", hint="name two releases")
    older, newer = sorted(ends, key=candidates.in_order)
    clone = candidates.open_repository(repository, settings)
    releases = candidates.released(settings, installer, package, older, newer)
    good_release, bad_release = (releases[0 if end == older else -1] for end in ends)
    commit = candidates.one_commit(clone, package, clone.head(), good_release.name, releases[-1].stack)
    search = SearchPlan(
        kind="commits", package=package, versions=(good_release, commit, bad_release), question=question, to=Verdict.BAD
    )  # fmt: skip
    cell = one_cell(settings, good_release.stack, workload)
    with Progress(brief=True) as progress, session(settings, (), progress, installer) as opened:
        bench = VersionRunner(opened, cell)
        is_timed = question is not None and question.is_timed
        asker: VersionTester = TimedTester(search, bench) if is_timed else ExactTester(search, bench)
        course = run_search(search, asker, bench)
    probe = course.probes[1]
    assert probe.answer is not None
    click.echo(f"{probe.name} ({probe.about}): {probe.answer.value}, {course.metric}: {probe.text}")
    if probe.answer is Verdict.UNKNOWN:
        return CANNOT_TELL
    return BAD if (probe.answer is Verdict.BAD) != fixed else GOOD
