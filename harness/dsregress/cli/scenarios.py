"""``scenarios``: the available workloads."""

from __future__ import annotations

import fnmatch

import click

from dsregress.cli import options
from dsregress.cli.lines import print_text
from dsregress.errors import no_such
from dsregress.run import available_workloads


@click.command("scenarios")
@click.argument("pattern", default="*")
def scenarios_command(pattern: str) -> None:
    """List scenarios, their variants and remedies. PATTERN is a glob over their names.

    `remedies` runs the remedies. So does `regress --variant` with a remedy's name or its variant.
    Any combination of a scenario's parameters can be given as a variant: --variant zero_stage=2,dtype=fp32
    """
    settings = options.load_settings()
    found = available_workloads.list_scenarios(settings)
    names = fnmatch.filter(found, pattern)
    if not names:
        raise no_such("scenario", pattern, found, where=settings.scenarios)
    for name in names:
        scenario = found[name]
        print_text(f"{name} (version {scenario.version}, on {', '.join(scenario.devices)})")
        print_text(f"    {scenario.summary}")
        for variant in scenario.variant_ids:
            print_text(f"    {variant}")
        for remedy, variant in scenario.remedy_ids.items():
            print_text(f"    remedy: {remedy} ({variant})")
        for remedy, versions in scenario.pins.items():
            print_text(f"    remedy: {remedy} ({', '.join(f'{p} {v}' for p, v in versions.items())})")
