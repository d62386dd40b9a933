"""``stacks``: the configured stacks, and those with results."""

from __future__ import annotations

import click

from dsregress.cli import options
from dsregress.cli.lines import print_text
from dsregress.run import pipeline
from dsregress.store import Store


@click.command("stacks")
@options.stack_options
@options.results_option
def stacks_command(stacks: options.StackOptions, results: str | None) -> None:
    """List the stacks that `regress` with the same options would compare, the named stacks, and those with results.

    \b
    Examples:
      stacks
      stacks --deepspeed '0.16.*'
    """
    settings = options.load_settings(results=results)
    planned = pipeline.plan_stacks(settings, stacks.choice(), pipeline.new_installer(settings))
    stored = Store(settings.results).stack_ids()
    print_text("Compared (baseline first):")
    for stack in planned.stacks:
        print_text(f"    {stack.id}{'  has results' if stack.id in stored else ''}")
    if settings.stacks:
        print_text("Named (--stack NAME):")
        for name, versions in settings.stacks.items():
            print_text(f"    {name}: {', '.join(f'{package} {version}' for package, version in versions.items())}")
    others = [name for name in stored if name not in {stack.id for stack in planned.stacks}]
    if others:
        print_text("With results:")
        for name in others:
            print_text(f"    {name}")
