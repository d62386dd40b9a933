"""``matrix``: the jobs of a run as JSON, and the releases that are new."""

from __future__ import annotations

import fnmatch
import json

import click
from packaging.version import Version

from dsregress.cli import options
from dsregress.config.settings import Settings
from dsregress.errors import UsageError
from dsregress.run import available_workloads, pipeline, targets
from dsregress.versions import releases
from dsregress.wording import commands


@click.command("matrix")
@options.release_options
@click.option("--json", "by_scenario", is_flag=True, help="One job per stack and scenario, instead of one per stack.")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="GLOB",
    help="With --json: scenarios, e.g. '*_zero3'. Repeatable.",
)
@click.option(
    "--new",
    is_flag=True,
    help="Print the releases on the index that are newer than the committed ones, e.g. 0.20.0,0.20.1.",
)
def matrix_command(stacks: options.StackOptions, by_scenario: bool, scenarios: tuple[str, ...], new: bool) -> None:
    """Print the stacks of a run as JSON that a CI system expands into jobs.

    \b
    In a GitHub workflow:
      matrix=$(dsregress matrix --json)  # not inside echo, which would hide a failure
      echo "matrix=$matrix" >> "$GITHUB_OUTPUT"
      strategy: {matrix: "${{ fromJSON(needs.list.outputs.matrix) }}"}
      env: {DEEPSPEED: "${{ matrix.deepspeed }}", SCENARIO: "${{ matrix.scenario }}"}  # never inside a script
      run: nox -s regress -- --deepspeed "$DEEPSPEED" --scenario "$SCENARIO"
    """
    settings = options.load_settings()
    if new:
        click.echo(",".join(_new(settings)))
        return
    planned = pipeline.plan_stacks(settings, stacks.choice(), pipeline.new_installer(settings))
    include = [
        {"stack": stack.id, "baseline": stack == planned.baseline, "python": stack.python, **stack.versions}
        for stack in planned.stacks
    ]
    if by_scenario:
        include = [{**job, "scenario": name} for name in _scenarios(settings, scenarios) for job in include]
    click.echo(json.dumps({"include": include}))


def _scenarios(settings: Settings, globs: tuple[str, ...]) -> list[str]:
    """Return the scenarios that match, by default those that a plain run measures. Raise UsageError if none does."""
    wanted = globs or tuple(pattern.split("/")[0] for pattern in settings.select)
    existing = available_workloads.load_scenarios(settings, wanted)
    found = [name for name in existing if any(fnmatch.fnmatch(name, glob) for glob in wanted)]
    if not found:
        raise UsageError(f"no scenario is named like {', '.join(wanted)}", hint=f"`{commands.SCENARIOS}` lists them")
    return found


def _new(settings: Settings) -> list[str]:
    """Return the final releases of the varied package that the index has and the committed data lacks."""
    package = targets.varied_package(settings)
    newest = max(map(Version, releases.known_releases(package)), default=Version("0"))
    published = releases.sorted_versions(pipeline.new_installer(settings).published(package))
    return [text for text in published if Version(text) > newest and not Version(text).is_prerelease]
