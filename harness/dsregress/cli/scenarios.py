"""``scenarios``: the available workloads."""

from __future__ import annotations

import fnmatch

import click

from dsregress.cli import options
from dsregress.cli.command_json import text_beside, write_command_json
from dsregress.errors import no_such
from dsregress.run import available_workloads


@click.command("scenarios")
@click.argument("pattern", default="*")
@options.json_option
def scenarios_command(pattern: str, json_file: str | None) -> None:
    """List scenarios, their variants and remedies. PATTERN is a glob over their names.

    `remedies` runs the remedies. So does `regress --variant` with a remedy's name or its variant.
    Any combination of a scenario's parameters can be given as a variant: --variant zero_stage=2,dtype=fp32
    """
    settings = options.load_settings()
    found = available_workloads.list_scenarios(settings)
    names = fnmatch.filter(found, pattern)
    if not names:
        raise no_such("scenario", pattern, found, where=settings.scenarios)
    say = text_beside(json_file)
    for name in names:
        scenario = found[name]
        say(f"{name} (version {scenario.version}, on {', '.join(scenario.devices)})")
        say(f"    {scenario.summary}")
        for variant in scenario.variant_ids:
            say(f"    {variant}")
        for remedy, variant in scenario.remedy_ids.items():
            say(f"    remedy: {remedy} ({variant})")
        for remedy, versions in scenario.pins.items():
            say(f"    remedy: {remedy} ({', '.join(f'{p} {v}' for p, v in versions.items())})")
    listed = [
        {
            "name": name,
            "version": found[name].version,
            "devices": list(found[name].devices),
            "summary": found[name].summary,
            "variants": found[name].variant_ids,
            "remedies": found[name].remedy_ids,
            "pins": found[name].pins,
        }
        for name in names
    ]
    write_command_json(json_file, "scenarios", scenarios=listed)
