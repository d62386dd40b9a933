"""``explore``: configurations that no scenario lists."""

from __future__ import annotations

import click
import msgspec
from packaging.version import Version

from dsregress.bisect import candidates
from dsregress.cli import options
from dsregress.cli.named_cells import declared_scenario
from dsregress.cli.output import write_answer
from dsregress.cli.progress import Progress
from dsregress.errors import EXIT_OK, EXIT_REGRESSION, NothingMeasured, UsageError
from dsregress.explore.exploring import ExploreQuery, explore
from dsregress.report.answers import explore_answer as report
from dsregress.reproduce.factors import SIMPLEST
from dsregress.run import pipeline, targets
from dsregress.run.session import open_session
from dsregress.store import Store
from dsregress.wording.quantities import plural

#: Tiny models train in seconds, even if other work keeps the machine busy; one that hangs must not take the budget.
_TIMEOUT_S = 60.0


@click.command("explore")
@options.release_options
@click.option(
    "--budget",
    type=options.Duration(),
    default="30m",
    show_default=True,
    metavar="DURATION",
    help="When to stop: 90s, 30m, 2h.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for what is tried, and in which order.",
)
@options.results_option
@options.json_option
def explore_command(
    stacks: options.StackOptions, budget: float, seed: int, results: str | None, json_file: str | None
) -> int:
    """Compare two releases on configurations that no scenario lists, and find the faults that only one of them has.

    Both releases train tiny models on CPU. Until the budget is spent, the command tries a common job of each ZeRO stage,
    then each value of each factor (ranks, dtype, accumulation, checkpointing, offload, adapters, order of calls and others),
    then pairs of values, and the neighbours of what it found. The oracles judge every try, and the two releases are
    compared. Every failure is reduced to the factors it needs; failures that need the same factors are one fault. The rest
    of the budget finds the release in which a fault began or ended, and a script that shows it with the released packages
    alone. Results are stored like all others, so the same command with a larger budget continues.

    \b
    Examples:
      dsregress explore --deepspeed 0.18.2,0.18.3
      dsregress explore --deepspeed 0.15.4,0.16.0 --budget 2h --seed 1
      dsregress explore --transformers 4.48.0,4.48.1 --budget 10m

    \b
    Exit codes: 0 no difference, 1 a fault that only one of them has, 2 not two releases, 4 nothing was measured. Ctrl-C ends
    the search and reports what was found so far.
    """
    loaded = options.load_settings(results=results)
    settings = msgspec.structs.replace(loaded, executor="local", timeout_s=min(loaded.timeout_s, _TIMEOUT_S))
    installer = pipeline.new_installer(settings)
    package = _explored_package(stacks, targets.varied_package(settings))
    planned = pipeline.plan_stacks(settings, stacks.measured_choice(package, installer.published), installer)
    if len(planned.stacks) != 2:
        hint = f"name two: --{package} 0.18.2,0.18.3"
        raise UsageError(f"{plural(len(planned.stacks), 'release')} to compare", where="command line", hint=hint)
    older, newer = sorted(planned.stacks, key=lambda stack: Version(stack.versions[package]))
    listed = candidates.released(settings, installer, package, older.versions[package], newer.versions[package])
    request = ExploreQuery(
        releases=(older, newer),
        published=(older, *(one.stack for one in listed[1:-1]), newer),
        package=package,
        budget_s=budget,
        seed=seed,
        detail_of=pipeline.details_of([Store(settings.results)]),
    )
    simplest = declared_scenario(settings, SIMPLEST)
    with Progress(brief=True) as progress, open_session(settings, (), progress, installer, planned.existing) as opened:
        found = explore(request, simplest, opened, progress.note)
    write_answer(lambda: report.exploration_text(found), (json_file, lambda: report.exploration_json(found)))
    if found.interruption is not None:
        raise found.interruption
    if not found.tries:
        raise NothingMeasured("no configuration was measured", where="explore", hint="see the answer for the reasons")
    return EXIT_REGRESSION if any(fault.other is not None for fault in found.faults) else EXIT_OK


def _explored_package(stacks: options.StackOptions, usual: str) -> str:
    """Return the package of which two releases are named."""
    several = [name for name, spec in stacks.versions.items() if "," in spec]
    return several[0] if len(several) == 1 else usual
