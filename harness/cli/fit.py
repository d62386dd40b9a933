"""``fit``: does a workload fit a card, at which scale, and where does it break?"""

from __future__ import annotations

import functools
from typing import Any

import click

from harness.advice import fit, gpus
from harness.cli import options
from harness.cli.output import write_file, write_files
from harness.cli.progress import Progress
from harness.cli.running import one_axis
from harness.cli.workload import declared_scenario
from harness.errors import EXIT_OK, NothingMeasured, UsageError
from harness.probe.scenario import LAYERS, Scenario
from harness.report.answers import fit as fit_report
from harness.report.answers import fit_curve
from harness.run import pipeline
from harness.run.session import session

_GIB = 1 << 30


@click.command("fit")
@click.argument("scenario")
@click.option("--gpu", "cards", required=True, metavar="NAME,...", help="Cards, e.g. A800-80G,H100-80G.")
@click.option("--ranks", metavar="N,...", help="World sizes, e.g. 8,16,32,64. Default: the scenario's.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="VARIANT",
    help="Declared or spelled out: 'sequence_length=4096'. May be repeated: each is asked.",
)
@options.stack_options
@click.option("--max-layers", type=int, metavar="N", help="Find the largest number of layers, up to N, that fits.")
@click.option(
    "--seq", metavar="LOW..HIGH", help="Find the longest sequence that fits: doublings, or values: 2048,3072."
)
@click.option("--micro-batch", metavar="LOW..HIGH", help="Find the largest micro-batch that fits: as --seq.")
@options.overhead_option
@click.option("--gpus-per-node", type=click.IntRange(min=1), default=gpus.step_time.GPUS_PER_NODE, show_default=True)
@click.option(
    "--network",
    "network_gbits",
    type=click.FloatRange(min=0, min_open=True),
    default=gpus.step_time.NETWORK_GBITS_PER_GPU,
    show_default=True,
    metavar="GBIT/S",
    help="Bandwidth between nodes, per GPU, for the model of step time.",
)
@click.option("--fresh", is_flag=True, help="Simulate everything again, whatever is stored.")
@options.results_option
@click.option("--json", "json_file", metavar="FILE", help="Write JSON (- for stdout).")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Write Markdown (- for stdout).")
@click.option("--svg", "svg_file", metavar="FILE", help="Draw the peaks over the ranks, or over what is swept.")
def command(scenario: str, **given: Any) -> int:
    """Simulate SCENARIO at several scales and say on which cards it fits.

    Runs the real code of each release as one rank of the job, without a GPU. Results are stored and reused.

    \b
    Examples:
      fit llama3_70b_zero3 --gpu A800-80G --ranks 16,32,64 --deepspeed 0.15.0,0.16.4,0.16.8
      fit llama3_70b_zero3 --gpu A100-80G,H200 --max-layers 160
      fit llama3_70b_zero3 --gpu H100-80G --seq 2048..65536
      fit openrlhf_ppo_sharding --gpu A100-80G --ranks 2,4,8 --variant zero_stage=2 --variant zero_stage=3 --svg curve.svg
    """
    settings = options.load_settings(results=given["results"])
    declared = declared_scenario(settings, scenario)
    question = _question(scenario, declared, given)
    fit.check(question, declared)
    installer = pipeline.new_installer(settings)
    planned = pipeline.plan_stacks(settings, one_axis(settings, given, installer.published), installer)
    with Progress() as progress, session(settings, planned.stacks, progress, installer) as opened:
        run = functools.partial(opened.newest, fresh=given["fresh"])
        found = fit.answer(question, declared, planned.stacks, run)
    if given["svg_file"] is not None:
        write_file(given["svg_file"], fit_curve.as_svg(found).encode())
    write_files(
        found,
        text=fit_report.text,
        json=(given["json_file"], fit_report.as_json),
        markdown=(given["markdown_file"], fit_report.as_markdown),
    )
    if all(line.peak_bytes is None for line in found.lines):
        raise NothingMeasured("no cell could be simulated", where="fit", hint="the verdicts above say why")
    return EXIT_OK


def _question(name: str, scenario: Scenario, given: dict[str, Any]) -> fit.FitQuery:
    sweeps = {
        LAYERS: _counted(given["max_layers"]),
        "sequence_length": _values("--seq", given["seq"]),
        "micro_batch_size": _values("--micro-batch", given["micro_batch"]),
    }
    asked = [fit.Sweep(parameter, values) for parameter, values in sweeps.items() if values]
    if len(asked) > 1:
        raise UsageError(
            "one sweep at a time", where="fit", hint="fix the others with --variant, e.g. sequence_length=4096"
        )
    default = {**scenario.parameters, **scenario.devices.get("sim", {})}.get("world_size", 1)
    return fit.FitQuery(
        scenario=name,
        variant=(given["variants"] or ("base",))[0],
        others=given["variants"][1:],
        cards=tuple(
            {card.name: card for card in (gpus.card(text.strip()) for text in given["cards"].split(","))}.values()
        ),
        ranks=_numbers("--ranks", given["ranks"]) if given["ranks"] else (int(default),),
        sweep=asked[0] if asked else None,
        overhead_bytes=round(given["overhead_gib"] * _GIB),
        gpus_per_node=given["gpus_per_node"],
        network_gbits_per_gpu=given["network_gbits"],
    )


def _counted(most: int | None) -> tuple[int, ...]:
    if most is not None and most < 1:
        raise UsageError(f"{most} layers", where="--max-layers", hint="give 1 or more")
    return tuple(range(1, most + 1)) if most else ()


def _values(option: str, text: str | None) -> tuple[int, ...]:
    """``2048..16384`` is 2048, 4096, 8192, 16384; a list is itself."""
    if text is None:
        return ()
    low, dots, high = text.partition("..")
    if not dots:
        return _numbers(option, text)
    (first,), (last,) = _numbers(option, low), _numbers(option, high)
    if first > last:
        raise UsageError(f"{text} runs backwards", where=option, hint=f"write {last}..{first}")
    values = [first]
    while values[-1] * 2 <= last:
        values.append(values[-1] * 2)
    return (*values, *([last] if values[-1] != last else []))


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"not whole numbers: {text!r}", where=option, hint="write e.g. 8,16,32") from None
    if min(found) < 1:
        raise UsageError(f"{min(found)} is below 1", where=option, hint="give whole numbers of 1 or more")
    return found
