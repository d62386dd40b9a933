"""``env STACK``: one stack's environment, for looking around in it."""

from __future__ import annotations

import click
import msgspec

from dsregress.cli import options
from dsregress.cli.building import built_here
from dsregress.cli.command_json import write_command_json
from dsregress.errors import UsageError
from dsregress.run import pipeline, targets


@click.command("env")
@click.argument("version", required=False)
@options.release_options
@options.json_option
def env_command(version: str | None, stacks: options.StackOptions, json_file: str | None) -> None:
    """Build a stack's environment if it does not exist, and print the path of its interpreter.

    VERSION is a version of the package under test.

    \b
    Examples:
      dsregress env 0.16.4
      $(dsregress env 0.16.4) -c 'import deepspeed'
      dsregress env --stack open-reasoner-zero-24
    """
    settings = options.load_settings()
    choice = stacks.choice()
    if version:
        package = targets.varied_package(settings)
        versions = {**stacks.versions, package: version}
        choice = msgspec.structs.replace(choice, versions=versions, baseline=stacks.baseline or f"{package}=={version}")
    installer = pipeline.new_installer(settings)
    planned = pipeline.plan_stacks(settings, choice, installer)
    wanted = planned.stacks if len(planned.stacks) == 1 else planned.stacks[-1:] if stacks.stack else ()
    if not wanted:
        raise UsageError(
            f"that matches {len(planned.stacks)} stacks", where="env", hint="name one version, e.g. `env 0.16.4`"
        )
    environment = built_here(wanted[0], settings, installer)
    if json_file != "-":
        click.echo(environment.python)
    write_command_json(
        json_file,
        "env",
        stack=environment.stack.id,
        versions=environment.stack.versions,
        python=environment.python,
        installed=environment.installed,
        build_s=environment.build_s,
    )
