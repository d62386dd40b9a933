"""``remedies``: what each piece of advice buys."""

from __future__ import annotations

import functools
from typing import Any

import click
from packaging.version import Version

from harness.advice import gpus, remedies
from harness.cli import options
from harness.cli.output import write_files
from harness.cli.progress import Progress
from harness.cli.running import one_axis
from harness.cli.workload import declared_scenario
from harness.envs import hardware
from harness.errors import EXIT_OK, NothingMeasured, UsageError
from harness.probe.scenario import DEVICES, Scenario
from harness.report.answers import remedies as remedies_report
from harness.run import pipeline, targets
from harness.run.session import session

_GIB = 1 << 30


@click.command("remedies")
@click.argument("scenario")
@click.option("--gpu", "card", metavar="NAME", help="Say what fits this card, e.g. A800-80G. Default: the scenario's.")
@click.option(
    "--device", type=click.Choice([*DEVICES, "auto"]), default="auto", show_default=True, help="Where to run it."
)
@click.option("--ranks", type=click.IntRange(min=1), metavar="N", help="World size, e.g. 64. Default: the scenario's.")
@click.option("--variant", default="base", metavar="VARIANT", help="The unmodified case, e.g. 'sequence_length=4096'.")
@options.stack_options
@options.overhead_option
@click.option("--rounds", type=click.IntRange(min=0), metavar="N", help="Timed rounds of each case, where it is timed.")
@click.option("--fresh", is_flag=True, help="Run everything again, whatever is stored.")
@options.results_option
@click.option("--json", "json_file", metavar="FILE", help="Write JSON (- for stdout).")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Write Markdown (- for stdout).")
def command(scenario: str, **given: Any) -> int:
    """Measure every remedy of SCENARIO alone, and the best combination, against the unmodified case.

    A scenario names the advice that people give for it (`scenarios` lists it). Each piece is run for real, in sim as one
    rank at full scale; advice that does nothing or makes it worse is called so. Results are stored and reused. Where no
    release is named, it is the newest of the configured ones.

    \b
    Examples:
      remedies llama3_70b_zero3 --gpu A800-80G --deepspeed 0.16.4
      remedies llama3_70b_zero3 --gpu A100-80G --ranks 64 --deepspeed 0.16.4,0.16.8 --markdown remedies.md
      remedies llama3_70b_zero3 --variant gradient_checkpointing=reentrant --deepspeed latest
    """
    settings = options.load_settings(results=given["results"], rounds=given["rounds"])
    declared = declared_scenario(settings, scenario)
    question = _question(scenario, declared, given)
    remedies.check(question, declared)
    installer = pipeline.new_installer(settings)
    planned = pipeline.plan_stacks(settings, one_axis(settings, given, installer.published), installer)
    stacks = planned.stacks
    if not options.versions_of(given) and given["stack"] is None:
        package = targets.varied_package(settings)
        stacks = (max(stacks, key=lambda stack: Version(stack.versions[package])),)
    pinned = [stack for one in stacks for stack in remedies.pinned_stacks(one, declared).values()]
    every = list({stack.id: stack for stack in (*stacks, *pinned)}.values())
    with Progress() as progress, session(settings, every, progress, installer) as opened:
        run = functools.partial(opened.newest, fresh=given["fresh"])
        answers = [remedies.answer(question, declared, stack, run) for stack in stacks]
    write_files(
        answers,
        text=remedies_report.text,
        json=(given["json_file"], remedies_report.as_json),
        markdown=(given["markdown_file"], remedies_report.as_markdown),
    )
    if all(case.peak_bytes is None for found in answers for case in (found.base, *found.alone)):
        raise NothingMeasured("no case ran to its end", where="remedies", hint="the table says why")
    return EXIT_OK


def _question(name: str, scenario: Scenario, given: dict[str, Any]) -> remedies.RemediesQuery:
    device = given["device"]
    if device == "auto":
        device = next(d for d in _preferred() if d in scenario.devices)
    if device == "cuda" and not hardware.has_gpu():
        raise UsageError("no GPU on this machine", where="--device", hint="take sim or cpu")
    card = given["card"] or (scenario.parameters.get("gpu") if device == "sim" else None)
    return remedies.RemediesQuery(
        scenario=name,
        variant=given["variant"],
        device=device,
        card=None if card is None else gpus.card(card),
        ranks=given["ranks"],
        overhead_bytes=round(given["overhead_gib"] * _GIB),
    )


def _preferred() -> tuple[str, ...]:
    """Full scale first: that is what advice is asked for."""
    return ("cuda", "sim", "cpu") if hardware.has_gpu() else ("sim", "cpu", "cuda")
