"""``remedies``: the gain of each remedy."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec
from packaging.version import Version

from dsregress.advice import card_fit, remedy_cases
from dsregress.advice.gpus import Card
from dsregress.cli import options, program_attempts
from dsregress.cli.named_cells import declared_card, declared_scenario
from dsregress.cli.output import exit_code_of, write_answer
from dsregress.cli.progress import Progress
from dsregress.cli.stored_results import published_results, stored_stacks
from dsregress.envs import hardware
from dsregress.errors import NothingMeasured, UsageError
from dsregress.model import Stack
from dsregress.probe.scenario import DEVICES, Scenario
from dsregress.report.answers import remedies_answer as remedies_report
from dsregress.run import available_workloads, pipeline, targets
from dsregress.run.available_workloads import Program
from dsregress.run.published import answering


class UnmodifiedCase(msgspec.Struct, frozen=True, kw_only=True):
    """The case before any remedy."""

    card: Card | None
    device: str
    ranks: int | None
    variant: str
    overhead_bytes: int


@click.command("remedies")
@click.argument("scenario", required=False)
@options.program_beside_ranks_options
@options.grouped(
    "case",
    UnmodifiedCase,
    options.card_option("The card to fit, e.g. A800-80G. Default: the scenario's."),
    click.option(
        "--device",
        type=click.Choice([*DEVICES, "auto"]),
        default="auto",
        show_default=True,
        help="Device mode to run in.",
    ),
    click.option(
        "--ranks",
        type=click.IntRange(1, card_fit.MOST_RANKS),
        metavar="N",
        help="Number of ranks, e.g. 64. Default: the scenario's.",
    ),
    click.option(
        "--variant", default="base", metavar="VARIANT", help="The case before any remedy, e.g. 'sequence_length=4096'."
    ),
    options.overhead_option,
)
@options.stack_options
@options.rounds_option
@options.reused_option("Run everything again, even if results are stored.")
@options.answer_options(markdown=True)
def remedies_command(
    scenario: str | None,
    program: Program | None,
    case: UnmodifiedCase,
    stacks: options.StackOptions,
    timing: options.TimingOptions,
    reused: options.ReusedResults,
    files: options.AnswerFiles,
) -> int:
    """Measure each remedy of SCENARIO alone, and the best combination, against the unmodified case.

    Remedies are the usual advice, declared by the scenario (`scenarios` lists them). Each one is run, in sim as one rank at
    full scale, and the report says which of them do nothing or make it worse. Results are stored and reused. Results from
    --results are used even if another version of the probe measured them; the answer names that version. The default
    release is the newest configured one.

    \b
    Examples:
      dsregress remedies llama3_70b_zero3 --gpu A800-80G --deepspeed 0.16.4
      dsregress remedies llama3_70b_zero3 --gpu A100-80G --ranks 64 --deepspeed 0.16.4,0.16.8 --markdown remedies.md
      dsregress remedies llama3_70b_zero3 --variant gradient_checkpointing=reentrant --deepspeed latest
    """
    settings = options.load_settings(results=reused.results, timing=timing)
    card = case.card
    if program is not None:
        program = msgspec.structs.replace(program, gpu=card.name if card is not None else program.gpu)
    installer, package = pipeline.new_installer(settings), targets.varied_package(settings)
    choice = stacks.measured_choice(package, installer.published)
    if program is not None and reused.results is None:  # else others have measured it
        program, choice = program_attempts.attempted(program, choice, settings, installer)
    scenario = available_workloads.chosen_workload(scenario, program, settings)
    declared = declared_scenario(settings, scenario)
    mode = _device_mode(declared, case.device)
    if card is None and mode == "sim":
        card = declared_card(scenario, declared)
    question = remedy_cases.RemediesQuery(
        scenario=scenario,
        variant=case.variant,
        device=mode,
        card=card,
        ranks=case.ranks,
        overhead_bytes=case.overhead_bytes,
    )
    remedy_cases.check_remedy_query(question, declared)
    planned = pipeline.plan_stacks(settings, choice, installer)
    compared = planned.stacks
    published, settings = published_results(reused.results, settings, scenario, fresh=reused.fresh)
    if not stacks.names_releases:
        compared = stored_stacks(
            published, compared, lambda stack: remedy_cases.first_cells(question, declared, stack).values(), package
        )
        compared = (max(compared, key=lambda stack: Version(stack.versions[package])),)
    every, fresh = _with_pinned(compared, declared), reused.fresh
    with (
        Progress() as progress,
        answering(settings, every, progress, installer, published, fresh=fresh, existing=planned.existing) as run,
    ):
        answers = [remedy_cases.answer_remedies(question, declared, stack, run) for stack in compared]
    _write_remedies(answers, files)
    return exit_code_of((measured.cell, measured.outcome) for found in answers for measured in found.cases)


def _write_remedies(answers: Sequence[remedy_cases.RemediesAnswer], files: options.AnswerFiles) -> None:
    """Print the answers, and write them to the files. Raise NothingMeasured if they have no figure."""
    write_answer(
        lambda: remedies_report.remedies_text(answers),
        (files.json, lambda: remedies_report.remedies_json(answers)),
        (files.markdown, lambda: remedies_report.remedies_markdown(answers)),
    )
    if all(case.peak_bytes is None for found in answers for case in found.cases):
        raise NothingMeasured("no case ran to its end", where="remedies", hint="see the table for the reasons")


def _with_pinned(compared: Sequence[Stack], scenario: Scenario) -> list[Stack]:
    """Return the stacks, and those that the scenario's remedies pin, each once."""
    pinned = [stack for one in compared for stack in remedy_cases.pinned_stacks(one, scenario).values()]
    return list({stack.id: stack for stack in (*compared, *pinned)}.values())


def _device_mode(scenario: Scenario, device: str) -> str:
    """Return the device mode that is meant. Raise UsageError for ``cuda`` without a GPU."""
    if device == "auto":  # full scale first: remedies are for jobs that do not fit
        preferred = ("cuda", "sim", "cpu") if hardware.has_gpu() else ("sim", "cpu", "cuda")
        device = next(mode for mode in preferred if mode in scenario.devices)
    if device == "cuda" and not hardware.has_gpu():
        raise UsageError("this machine has no GPU", where="--device", hint="take sim or cpu")
    return device
