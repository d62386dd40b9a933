"""``watch``: measure releases that are new on the package index, each beside the one before it."""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from dsregress.advisories.osv import encode_advisory
from dsregress.cli import options
from dsregress.cli.command_json import text_beside, write_command_json
from dsregress.cli.comparison_output import write_reports
from dsregress.cli.configured_job import ConfiguredWorkload, configured_packages, configured_workload
from dsregress.cli.lines import print_note
from dsregress.cli.output import write_file
from dsregress.cli.progress import Progress
from dsregress.compare import Comparison
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.errors import (
    EXIT_HARNESS,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_REGRESSION,
    HarnessError,
    NoReleaseFits,
    NothingMeasured,
    UsageError,
)
from dsregress.report.advisory_drafts import draft_advisories
from dsregress.report.answers.audit_comment import comment_text
from dsregress.report.context import report_context
from dsregress.report.plain_text import markdown
from dsregress.report.report_view import report_view
from dsregress.run import pipeline
from dsregress.run.cell_matrix import Selection
from dsregress.run.new_releases import NewRelease, newest_release, releases_since
from dsregress.store import Store
from dsregress.wording.quantities import listing, plural


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The releases that are looked for."""

    packages: tuple[str, ...]  #: empty: those of the configured stack
    since: datetime.datetime | None  #: a day; None: the newest that was not measured


class WatchFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The places of what is written."""

    out: str
    json_file: str | None


@click.command("watch")
@options.grouped(
    "watched",
    Watched,
    click.option(
        "--package",
        "packages",
        multiple=True,
        metavar="NAME",
        help="A package to watch, e.g. trl. Repeatable. Default: those of the configured stack.",
    ),
    click.option(
        "--since",
        type=click.DateTime(["%Y-%m-%d"]),
        metavar="DATE",
        help="Measure every release that came after this day, not the newest alone, e.g. 2026-10-01.",
    ),
)
@options.as_of_option
@options.selection_options
@options.timing_options
@click.option("--dry-run", is_flag=True, help="Print what is new; measure nothing.")
@options.grouped(
    "files",
    WatchFiles,
    click.option(
        "--out",
        type=click.Path(file_okay=False),
        default="watch",
        show_default=True,
        metavar="FOLDER",
        help="Folder for the reports and drafts: FOLDER/peft-0.22.0/.",
    ),
    options.json_option,
)
@options.results_option
def watch_command(
    watched: Watched,
    as_of: str | None,
    selection: Selection,
    timing: options.TimingOptions,
    dry_run: bool,
    files: WatchFiles,
    results: str | None,
) -> int:
    """Measure releases that are new on the package index, each beside the release before it, with the configured stack.

    A release is new if it is the newest of its package and the results folder has no stack with it, so that the command
    can run every hour and does nothing until something is uploaded. For each new release it writes a report, the site, and
    a draft of an advisory for each problem that no advisory knows.

    \b
    Examples:
      dsregress watch
      dsregress watch --dry-run
      dsregress watch --package trl --scenario 'trl*'
      dsregress watch --since 2026-10-01 --as-of 2026-11-01    what that month brought, knowing nothing later

    \b
    Exit codes: 0 nothing is new, or nothing is worse; 1 a new release is worse; 3 the machine or the harness failed; 4 a
    new release could not be measured.
    """
    settings = options.load_settings(results=results, timing=timing, as_of=as_of)
    workload = configured_workload(settings, selection)
    installer = pipeline.new_installer(workload.settings)
    job = _WatchedJob(settings=workload.settings, selection=workload.selection, added=workload.added)
    watched = msgspec.structs.replace(watched, packages=watched.packages or _packages_of(workload))
    found = _new_releases(job, watched, installer)
    say, out = text_beside(files.json_file), Path(files.out)
    if not found:
        say("nothing is new")
    for release in found:
        say(f"new: {release.package} {release.version}; beside it: {release.before}")
    measured = (
        []
        if dry_run
        else [_measure(release, job, installer, out, is_shown=files.json_file != "-") for release in found]
    )
    _write_comment(found, measured, out)
    write_command_json(
        files.json_file,
        "watch",
        new=[
            {
                "package": release.package,
                "version": release.version,
                "before": release.before,
                **({} if one is None else {"folder": str(out / release.name), **msgspec.structs.asdict(one)}),
            }
            for release, one in itertools.zip_longest(found, measured)
        ],
    )
    codes = {one.exit_code for one in measured}
    gravest = (EXIT_HARNESS, EXIT_REGRESSION, EXIT_NOTHING_MEASURED)
    return next((code for code in gravest if code in codes), EXIT_OK)


class _WatchedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a release's measurement, as it is in the JSON."""

    exit_code: int
    answer: str = ""  #: one line of Markdown
    seconds: int = 0  #: environments, runs and reports together
    drafts: tuple[dict[str, object], ...] = ()


class _WatchedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job on which new releases are measured."""

    settings: Settings
    selection: Selection
    added: dict[str, str]  #: packages besides the stack -> spec

    def choice(self, release: NewRelease) -> pipeline.Choice:
        """Return the release and the one before it, on this job."""
        return pipeline.Choice(
            versions={**self.added, release.package: f"{release.before},{release.version}"},
            baseline=f"{release.package}=={release.before}",
            selection=self.selection,
        )

    def stack_ids(self, release: NewRelease, installer: Installer) -> list[str]:
        """Return the ids of the two stacks."""
        return [stack.id for stack in pipeline.plan_stacks(self.settings, self.choice(release), installer).stacks]


def _packages_of(workload: ConfiguredWorkload) -> tuple[str, ...]:
    """Return the packages of a workload that may be new: of its stack those that a configured job has, and what is added."""
    stack = tuple(workload.settings.stack)
    if workload.program is not None:
        has = {name for _, found in configured_packages(workload.settings) for name in found.versions}
        stack = tuple(name for name in stack if name in has) or stack
    return tuple(dict.fromkeys((*stack, *workload.added)))


def _new_releases(job: _WatchedJob, watched: Watched, installer: Installer) -> list[NewRelease]:
    """Return what is new, in the order of the packages. Raise UsageError, EnvironmentUnavailable."""
    settings = job.settings
    if watched.since is not None:
        earlier = pipeline.new_installer(options.load_settings(as_of=watched.since.date().isoformat()))
        return [
            release
            for package in watched.packages
            for release in releases_since(package, installer.published(package), earlier.published(package))
        ]
    newest = [newest_release(package, installer.published(package)) for package in watched.packages]
    stored = set(Store(settings.results).stack_ids())
    return [release for release in newest if release is not None and not _is_stored(release, stored, job, installer)]


def _is_stored(release: NewRelease, stored: set[str], job: _WatchedJob, installer: Installer) -> bool:
    """Return True if both stacks of a release are among the ``stored`` ones. One that does not go with the others is not:
    `_measure` says so, and the other packages are measured."""
    try:
        return stored.issuperset(job.stack_ids(release, installer))
    except NoReleaseFits:
        return False


def _measure(release: NewRelease, job: _WatchedJob, installer: Installer, out: Path, *, is_shown: bool) -> _WatchedRun:
    """Measure a release, and write what was found; an error is a line, since others may be new too."""
    began = time.monotonic()
    settings, choice = job.settings, job.choice(release)
    try:
        planned = pipeline.plan_run(settings, choice, installer)
        if not planned.matrix.cells:
            raise NothingMeasured(
                "all selected workloads are skipped on this machine", where="watch", hint="select others"
            )
        with Progress() as progress:
            comparison = pipeline.regress(settings, choice, planned, installer, progress)
        done = _write(release, comparison, settings, out / release.name, is_shown=is_shown)
    except NoReleaseFits as error:
        done = _not_measured(release, error, EXIT_NOTHING_MEASURED)
    except UsageError:
        raise
    except HarnessError as error:
        done = _not_measured(release, error, error.exit_code)
    return msgspec.structs.replace(done, seconds=round(time.monotonic() - began))


def _not_measured(release: NewRelease, error: HarnessError, exit_code: int) -> _WatchedRun:
    print_note(f"{release.package} {release.version}: {error}")
    return _WatchedRun(exit_code=exit_code, answer=f"not measured: {markdown(str(error))}")


def _write_comment(found: Sequence[NewRelease], measured: Sequence[_WatchedRun], out: Path) -> None:
    """Write the answer for all new releases, if any was measured. Raise ResultsError."""
    if measured:
        out.mkdir(parents=True, exist_ok=True)
        write_file(str(out / "comment.md"), _comment(found, measured).encode())


def _comment(found: Sequence[NewRelease], measured: Sequence[_WatchedRun]) -> str:
    """Return the answer for all new releases, a line for each."""
    lines = [
        f"{markdown(f'{release.package} {release.version}, beside {release.before}')}: {one.answer}"
        for release, one in zip(found, measured, strict=True)
    ]
    drafts = [markdown(str(draft["title"])) for one in measured for draft in one.drafts]
    rest = [f"{plural(len(drafts), 'draft')} of advisories: {listing(drafts)}"] if drafts else []
    return comment_text(f"{plural(len(found), 'new release')}", lines, rest)


def _write(
    release: NewRelease, comparison: Comparison, settings: Settings, folder: Path, *, is_shown: bool
) -> _WatchedRun:
    """Write the reports and the drafts."""
    folder.mkdir(parents=True, exist_ok=True)
    files = options.ReportFiles(
        json=str(folder / "report.json"),
        markdown=str(folder / "report.md"),
        html_folder=str(folder / "site"),
        exports=(("comment", str(folder / "comment.md")),),
        is_shown=is_shown,
    )
    code = write_reports(comparison, settings, files)
    context = report_context(comparison, settings.thresholds, exit_code=code)
    today = settings.as_of or datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    drafts = draft_advisories(context, release.package, release.version, today)
    for draft in drafts:
        write_file(str(folder / f"{draft.record.id}.json"), encode_advisory(draft.record))
    if drafts:
        print_note(f"{plural(len(drafts), 'draft')} of advisories: {listing([draft.record.title for draft in drafts])}")
    return _WatchedRun(
        exit_code=code,
        answer=markdown(report_view(context).screen.headline),
        drafts=tuple(
            {"id": one.record.id, "title": one.record.title, "known_since": one.known_since} for one in drafts
        ),
    )
