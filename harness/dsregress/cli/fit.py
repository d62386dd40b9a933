"""``fit``: does a workload fit a card, at which scale, and where does it break?"""

from __future__ import annotations

import functools

import click
import msgspec

from dsregress.advice import card_fit
from dsregress.advice.gpus import Card, step_time
from dsregress.cli import options, program_attempts
from dsregress.cli.named_cells import declared_scenario
from dsregress.cli.output import exit_code_of, write_answer
from dsregress.cli.progress import Progress
from dsregress.cli.stored_results import published_results, stored_stacks
from dsregress.errors import NothingMeasured, UsageError
from dsregress.probe.scenario import LAYERS, Scenario
from dsregress.report.answers import fit_answer as fit_report
from dsregress.report.answers import fit_curve
from dsregress.run import available_workloads, pipeline, targets
from dsregress.run.available_workloads import Program
from dsregress.run.published import answering

#: Layers, and values of a swept parameter: beyond any model.
_MOST_LAYERS = 10_000
_MOST_VALUE = 1 << 30


def _numbers(option: str, text: str, most: int) -> tuple[int, ...]:
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"not whole numbers: {text!r}", where=option, hint="write e.g. 8,16,32") from None
    if min(found) < 1:
        raise UsageError(f"{min(found)} is below 1", where=option, hint="give whole numbers of 1 or more")
    if max(found) > most:
        raise UsageError(f"a number is above {most:,}", where=option, hint="give smaller ones")
    return found


def _world_sizes(context: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...]:
    return _numbers(option.opts[0], text, card_fit.MOST_RANKS) if text is not None else ()


def _swept_values(context: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Return 2048, 4096, 8192, 16384 for ``2048..16384``, and a list as it is; empty if the option was not given."""
    name = option.opts[0]
    if text is None:
        return ()
    low, dots, high = text.partition("..")
    if not dots:
        return _numbers(name, text, _MOST_VALUE)
    (first, *others), (last, *more) = (_numbers(name, end, _MOST_VALUE) for end in (low, high))
    if others or more:
        raise UsageError(f"not a span: {text}", where=name, hint="write e.g. 2048..16384, or 2048,3072")
    if first > last:
        raise UsageError(f"{text} runs backwards", where=name, hint=f"write {last}..{first}")
    values = [first]
    while values[-1] * 2 <= last:
        values.append(values[-1] * 2)
    return (*values, *([last] if values[-1] != last else []))


def _layers(context: click.Context, option: click.Parameter, most: int | None) -> tuple[int, ...]:
    return tuple(range(1, most + 1)) if most else ()


class TriedScales(msgspec.Struct, frozen=True, kw_only=True):
    """The cards, and the program or the scenario's variants that are tried on each, with the numbers of ranks."""

    program: Program | None
    cards: tuple[Card, ...]
    ranks: tuple[int, ...]  #: empty: the scenario's
    variants: tuple[str, ...]


class EstimatedNode(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of the cards, for estimates."""

    overhead_bytes: int
    gpus_per_node: int
    network_gbits: float


def _sweep(
    *, layers: tuple[int, ...], sequence_lengths: tuple[int, ...], micro_batch_sizes: tuple[int, ...]
) -> card_fit.Sweep | None:
    values = {LAYERS: layers, "sequence_length": sequence_lengths, "micro_batch_size": micro_batch_sizes}
    sweeps = [card_fit.Sweep(parameter, given) for parameter, given in values.items() if given]
    if len(sweeps) > 1:
        raise UsageError(
            "only one sweep at a time", where="fit", hint="fix the others with --variant, e.g. sequence_length=4096"
        )
    return sweeps[0] if sweeps else None


@click.command("fit")
@click.argument("scenario", required=False)
@options.grouped(
    "tried",
    TriedScales,
    options.program_beside_ranks_options,
    options.cards_option,
    click.option(
        "--ranks",
        metavar="N,...",
        callback=_world_sizes,
        help="Numbers of ranks to try, e.g. 8,16,32,64. Default: the scenario's.",
    ),
    click.option(
        "--variant",
        "variants",
        multiple=True,
        metavar="VARIANT",
        help="A declared variant, or parameters such as 'sequence_length=4096'. Repeatable; each gets its own verdicts.",
    ),
)
@options.stack_options
@options.grouped(
    "sweep",
    _sweep,
    click.option(
        "--max-layers",
        "layers",
        type=click.IntRange(1, _MOST_LAYERS),
        metavar="N",
        callback=_layers,
        help="Find the largest number of layers, up to N, that fits.",
    ),
    click.option(
        "--seq",
        "sequence_lengths",
        metavar="LOW..HIGH",
        callback=_swept_values,
        help="Find the longest sequence that fits. LOW..HIGH doubles each time; a list such as 2048,3072 is tried as it is.",
    ),
    click.option(
        "--micro-batch",
        "micro_batch_sizes",
        metavar="LOW..HIGH",
        callback=_swept_values,
        help="Find the largest micro-batch that fits; same form as --seq.",
    ),
)
@options.grouped(
    "node",
    EstimatedNode,
    options.overhead_option,
    click.option(
        "--gpus-per-node",
        type=click.IntRange(1, card_fit.MOST_RANKS),
        default=step_time.GPUS_PER_NODE,
        show_default=True,
        metavar="N",
        help="GPUs per node.",
    ),
    click.option(
        "--network",
        "network_gbits",
        type=options.Number(min=0, min_open=True, max=1_000_000),
        default=step_time.NETWORK_GBITS_PER_GPU,
        show_default=True,
        metavar="GBIT/S",
        help="Bandwidth between nodes, per GPU, for the step time model.",
    ),
)
@options.reused_option("Simulate everything again, even if results are stored.")
@options.answer_options(markdown=True, svg="Plot the peaks against the ranks, or against the swept parameter.")
def fit_command(
    scenario: str | None,
    tried: TriedScales,
    stacks: options.StackOptions,
    sweep: card_fit.Sweep | None,
    node: EstimatedNode,
    reused: options.ReusedResults,
    files: options.AnswerFiles,
) -> int:
    """Simulate SCENARIO or a program at several scales, and find the cards that it fits.

    Runs the real code of each release as one rank of the job, without a GPU. Results are stored and reused. Results from
    --results are used even if another version of the probe measured them; the answer names that version.

    \b
    Examples:
      dsregress fit llama3_70b_zero3 --gpu A800-80G --ranks 16,32,64 --deepspeed 0.15.0,0.16.4,0.16.8
      dsregress fit --program 'torchrun train.py --model qwen' --gpu H100-80G --ranks 8,16
      dsregress fit llama3_70b_zero3 --gpu A100-80G,H200 --max-layers 160
      dsregress fit llama3_70b_zero3 --gpu H100-80G --seq 2048..65536
      dsregress fit openrlhf_ppo_sharding --gpu A100-80G --ranks 2,4,8 --variant zero_stage=2 --variant zero_stage=3 \\
          --svg curve.svg
    """
    settings = options.load_settings(results=reused.results)
    installer, package = pipeline.new_installer(settings), targets.varied_package(settings)
    choice = stacks.measured_choice(package, installer.published)
    program = tried.program
    if program is not None:
        program = msgspec.structs.replace(program, gpu=tried.cards[0].name)
        if reused.results is None:  # else others have measured it
            program, choice = program_attempts.attempted(program, choice, settings, installer)
    scenario = available_workloads.chosen_workload(scenario, program, settings)
    declared = declared_scenario(settings, scenario)
    question = card_fit.FitQuery(
        scenario=scenario,
        variant=tried.variants[0] if tried.variants else "base",
        others=tried.variants[1:],
        cards=tried.cards,
        ranks=tried.ranks or (_declared_ranks(declared),),
        sweep=sweep,
        overhead_bytes=node.overhead_bytes,
        gpus_per_node=node.gpus_per_node,
        network_gbits_per_gpu=node.network_gbits,
    )
    card_fit.check_fit_query(question, declared)
    planned = pipeline.plan_stacks(settings, choice, installer)
    compared = planned.stacks
    published, settings = published_results(reused.results, settings, scenario, fresh=reused.fresh)
    if not stacks.names_releases:
        first = functools.partial(card_fit.first_cells, question, declared)
        compared = stored_stacks(published, compared, first, package)
    with (
        Progress() as progress,
        answering(
            settings, compared, progress, installer, published, fresh=reused.fresh, existing=planned.existing
        ) as run,
    ):
        found = card_fit.answer_fit(question, declared, compared, run)
    _write_fit(found, files)
    return exit_code_of((line.cell, line.outcome) for line in found.lines)


def _write_fit(found: card_fit.FitAnswer, files: options.AnswerFiles) -> None:
    """Print the answer, and write it to the files. Raise NothingMeasured if it has no figure."""
    write_answer(
        lambda: fit_report.fits_text(found),
        (files.json, lambda: fit_report.fits_json(found)),
        (files.markdown, lambda: fit_report.fits_markdown(found)),
        (files.svg, lambda: fit_curve.as_svg(found)),
    )
    if all(line.peak_bytes is None for line in found.lines):
        raise NothingMeasured("no cell could be simulated", where="fit", hint="see the verdicts above for the reasons")


def _declared_ranks(scenario: Scenario) -> int:
    return int({**scenario.parameters, **scenario.devices.get("sim", {})}.get("world_size", 1))
