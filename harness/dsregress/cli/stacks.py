"""``stacks``: the configured stacks and those with results, as text or as the jobs of a CI matrix; releases that are new."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator

import click
from packaging.version import Version

from dsregress.cli import options
from dsregress.cli.lines import print_text
from dsregress.cli.output import write_answer
from dsregress.config.settings import Settings
from dsregress.errors import UsageError
from dsregress.run import available_workloads, pipeline, targets
from dsregress.store import Store
from dsregress.versions import releases
from dsregress.versions.stack_plans import StackPlan
from dsregress.wording import commands


@click.command("stacks")
@options.stack_options
@options.as_of_option
@options.results_option
@click.option(
    "--json",
    "json_file",
    type=options.OUTPUT_FILE,
    metavar="FILE",
    help="Write the compared stacks as the jobs of a CI matrix (- for stdout).",
)
@click.option("--by-scenario", is_flag=True, help="With --json: one job per stack and scenario that `regress` runs.")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="GLOB",
    help="With --by-scenario: these instead, e.g. '*_zero3'. Repeatable.",
)
@click.option(
    "--new",
    is_flag=True,
    help="Print only the releases on the index that are newer than the committed ones, e.g. 0.20.0,0.20.1.",
)
def stacks_command(
    stacks: options.StackOptions,
    as_of: str | None,
    results: str | None,
    json_file: str | None,
    by_scenario: bool,
    scenarios: tuple[str, ...],
    new: bool,
) -> None:
    """List the stacks that `regress` with the same options would compare, the named stacks, and those with results.

    \b
    Examples:
      dsregress stacks
      dsregress stacks --deepspeed '0.16.*'
      dsregress stacks --as-of 2025-02-20

    \b
    In a GitHub workflow:
      matrix=$(dsregress stacks --json - --by-scenario)  # not inside echo, which would hide a failure
      echo "matrix=$matrix" >> "$GITHUB_OUTPUT"
      strategy: {matrix: "${{ fromJSON(needs.list.outputs.matrix) }}"}
      env: {DEEPSPEED: "${{ matrix.deepspeed }}", SCENARIO: "${{ matrix.scenario }}"}  # never inside a script
      run: nox -s regress -- --deepspeed "$DEEPSPEED" --scenario "$SCENARIO"
    """
    if scenarios and not by_scenario:
        raise UsageError("--scenario needs --by-scenario", where="command line", hint="give both")
    if by_scenario and json_file is None:
        raise UsageError("--by-scenario needs --json", where="command line", hint="add --json -")
    settings = options.load_settings(results=results, as_of=as_of)
    if new:
        print_text(",".join(_new_releases(settings)))
        return
    planned = pipeline.plan_stacks(settings, stacks.choice(), pipeline.new_installer(settings))
    names = _scenarios(settings, scenarios) if by_scenario else []
    write_answer(
        lambda: "".join(f"{line}\n" for line in _listing(planned, settings)),
        (json_file, lambda: f"{json.dumps({'include': _jobs(planned, names)})}\n"),
    )


def _listing(planned: StackPlan, settings: Settings) -> Iterator[str]:
    stored = Store(settings.results).stack_ids()
    yield "Compared (baseline first):"
    for stack in planned.stacks:
        yield f"    {stack.id}{'  has results' if stack.id in stored else ''}"
    if settings.stacks:
        yield "Named (--stack NAME):"
        for name, versions in settings.stacks.items():
            yield f"    {name}: {', '.join(f'{package} {version}' for package, version in versions.items())}"
    others = [name for name in stored if name not in {stack.id for stack in planned.stacks}]
    if others:
        yield "With results:"
        yield from (f"    {name}" for name in others)


def _jobs(planned: StackPlan, scenarios: list[str]) -> list[dict[str, object]]:
    """Return one job per stack; with scenarios, one per scenario and stack."""
    jobs: list[dict[str, object]] = [
        {"stack": stack.id, "baseline": stack == planned.baseline, "python": stack.python, **stack.versions}
        for stack in planned.stacks
    ]
    return [{**job, "scenario": name} for name in scenarios for job in jobs] or jobs


def _scenarios(settings: Settings, globs: tuple[str, ...]) -> list[str]:
    """Return the scenarios that match, by default those that a plain run measures. Raise UsageError if none does."""
    wanted = globs or tuple(pattern.split("/")[0] for pattern in settings.select)
    existing = available_workloads.load_scenarios(settings, wanted)
    found = [name for name in existing if any(fnmatch.fnmatch(name, glob) for glob in wanted)]
    if not found:
        raise UsageError(f"no scenario matches {', '.join(wanted)}", hint=f"`{commands.SCENARIOS}` lists them")
    return found


def _new_releases(settings: Settings) -> list[str]:
    """Return the final releases of the varied package that the index has and the committed data lacks."""
    package = targets.varied_package(settings)
    newest = max(map(Version, releases.known_releases(package)), default=Version("0"))
    published = releases.sorted_versions(pipeline.new_installer(settings).published(package))
    return [text for text in published if Version(text) > newest and not Version(text).is_prerelease]
