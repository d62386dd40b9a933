"""``matrix``: the stacks of a run as JSON, one job each."""

from __future__ import annotations

import json
from typing import Any

import click

from harness import pipeline
from harness.cli import options


@click.command("matrix")
@options.stack_options
def command(**given: Any) -> None:
    """Print the stacks of a run as JSON that a CI system expands into jobs.

    \b
    In a GitHub workflow:
      echo "matrix=$(python -m harness matrix)" >> "$GITHUB_OUTPUT"
      strategy: {matrix: "${{ fromJSON(needs.list.outputs.matrix) }}"}
      run: nox -s regress -- --deepspeed ${{ matrix.deepspeed }}
    """
    settings = options.load_settings()
    choice = pipeline.Choice(versions=options.versions_of(given), stack=given["stack"], baseline=given["baseline"])
    planned = pipeline.plan_stacks(settings, choice, pipeline.new_installer(settings))
    include = [
        {"stack": stack.id, "baseline": stack == planned.baseline, "python": stack.python, **stack.versions}
        for stack in planned.stacks
    ]
    click.echo(json.dumps({"include": include}))
