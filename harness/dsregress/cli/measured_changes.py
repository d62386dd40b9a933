"""``upgrade --measure``: the old and the new packages, measured as they go together."""

from __future__ import annotations

from collections.abc import Mapping

from dsregress.bisect.package_changes import PackageChange
from dsregress.bisect.package_search import measure_upgrade
from dsregress.cli.lines import print_text
from dsregress.cli.named_cells import one_cell
from dsregress.cli.options import WorkloadOptions
from dsregress.cli.output import write_answer
from dsregress.cli.progress import Progress
from dsregress.config.settings import Settings
from dsregress.errors import EXIT_OK, EXIT_REGRESSION
from dsregress.model import Stack
from dsregress.report.answers.package_answer import package_text
from dsregress.run import pipeline
from dsregress.run.available_workloads import Program
from dsregress.run.session import open_session
from dsregress.versions.partners import fitting_partners


def measure_changes(
    settings: Settings,
    versions: Mapping[str, str],
    goals: Mapping[str, str],
    workload: WorkloadOptions,
    program: Program | None,
) -> int:
    """Measure the installed ``versions`` and the ``goals`` on a workload, print the answer, and return the exit code: 1 if
    it is worse."""
    changes = [
        PackageChange(package, versions[package], goal) for package, goal in goals.items() if goal != versions[package]
    ]
    if not changes:
        print_text("measured: nothing, as no package changes")
        return EXIT_OK
    installer = pipeline.new_installer(settings)
    configured = pipeline.plan_stacks(settings, pipeline.Choice(), installer).stacks[-1]
    cell = one_cell(settings, stack_of_list(configured, versions, goals), workload, program)
    with Progress() as progress, open_session(settings, (), progress, installer) as opened:
        found = measure_upgrade(opened, cell, changes)
    write_answer(lambda: package_text(found))
    return EXIT_OK if found.worst is None else EXIT_REGRESSION


def stack_of_list(configured: Stack, versions: Mapping[str, str], goals: Mapping[str, str]) -> Stack:
    """Return the stack of the installed ``versions``, with what is configured for packages that the list does not name, as
    far as that runs with the versions and with the ``goals``."""
    own = {**configured.versions, **versions}
    partners = fitting_partners(configured.versions.keys() - versions.keys(), [own, {**own, **goals}])
    return Stack(python=configured.python, versions={**own, **partners})
