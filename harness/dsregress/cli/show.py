"""``show``: stored measurements as they are."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterator, Mapping

import click
from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from rich.text import Text

from dsregress.advice import card_fit, gpus
from dsregress.advice.gpus import estimate
from dsregress.advisories.osv import advisory_fields
from dsregress.cli import options
from dsregress.cli.command_json import text_beside, write_command_json
from dsregress.cli.named_advisories import named_advisory
from dsregress.cli.output import console, note_problems
from dsregress.errors import NothingMeasured
from dsregress.model import Result
from dsregress.probe.border.wire import PHASES
from dsregress.report.answers.advisory_answer import advisory_text
from dsregress.report.plain_text import plain
from dsregress.store import Store, newest_by_cell
from dsregress.wording import commands
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import quantity
from vgpu.figures import PhaseReading

_MIB = 1 << 20


@click.command("show")
@click.argument("pattern", default="*")
@options.results_option
@options.json_option
def show_command(pattern: str, results: str | None, json_file: str | None) -> None:
    """Print the newest stored measurements of cells. PATTERN is a glob over cell ids: stack/scenario/variant/device.

    PATTERN may also be the id of an advisory: then all that is known of that problem.

    \b
    Examples:
      dsregress show DSR-2026-0020
      dsregress show '*deepspeed0.16.4/llama*'
      dsregress show '*/gradient_checkpointing=non_reentrant/cpu'
    """
    if (advisory := named_advisory(pattern)) is not None:
        text_beside(json_file)(advisory_text(advisory))
        write_command_json(json_file, "show", cells=[], advisories=[advisory_fields(advisory)])
        return
    settings = options.load_settings(results=results)
    store = Store(settings.results)
    loaded = store.load()
    note_problems(loaded.problems)
    found = {
        name: result for name, result in newest_by_cell(loaded.results).items() if fnmatch.fnmatchcase(name, pattern)
    }
    if not found:
        raise NothingMeasured(
            f"no stored cell matches {pattern}", where=settings.results, hint=f"`{commands.STACKS}` lists them"
        )
    if json_file != "-":
        _print_results(found)
    write_command_json(json_file, "show", cells=[_cell_fields(name, found[name]) for name in sorted(found)])


def _print_results(found: Mapping[str, Result]) -> None:
    shown = console()
    for name, result in sorted(found.items()):
        shown.print(Text.assemble((plain(name), "bold"), f"  {plain(outcome_text(result.outcome))}"), soft_wrap=True)
        measured = f"measured {result.started_at} in {result.duration_s:.1f} s, session {result.session}"
        shown.print(Text(f"  {plain(measured)}"), soft_wrap=True)
        if result.record is not None and result.record.ranks:
            shown.print(_phase_table(result))
            for line in _loss_scales(result):
                shown.print(Text(f"  {plain(line)}"), soft_wrap=True)
            for line in _models(result):
                shown.print(Text(f"  {plain(line)}"), soft_wrap=True)


def _cell_fields(name: str, result: Result) -> dict[str, object]:
    """Return a cell as JSON: how it ended, and the worst rank's values by phase."""
    phases = {
        phase: {
            field.name: max(getattr(reading, field.name) for reading in readings)
            for field in dataclasses.fields(PhaseReading)
            if isinstance(getattr(readings[0], field.name), (int, float))
        }
        for phase, readings in _readings(result).items()
    }
    return {
        "id": name,
        "outcome": result.outcome.__struct_config__.tag,
        "signature": plain(outcome_text(result.outcome)),
        "started_at": result.started_at,
        "duration_s": result.duration_s,
        "session": result.session,
        "phases": phases,
    }


def _readings(result: Result) -> dict[str, list[PhaseReading]]:
    """Return the readings of all ranks by phase, those of single models last."""
    if result.record is None:
        return {}
    ranks = result.record.ranks
    names = dict.fromkeys((*PHASES, *(phase for rank in ranks for phase in rank.phases)))
    found = {phase: [rank.phases[phase] for rank in ranks if phase in rank.phases] for phase in names}
    return {phase: readings for phase, readings in found.items() if readings}


def _phase_table(result: Result) -> Table:
    """Return the worst rank's values by phase, in MiB, seconds and counts."""
    headings = ("peak MiB", "held MiB", "host peak", "host held", "s", "calls", "collec-\ntives")
    table = Table(Column("phase", no_wrap=True), *headings, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for phase, readings in _readings(result).items():
        memory = (
            max(reading.device_peak_bytes for reading in readings),
            max(reading.device_retained_bytes for reading in readings),
            max(reading.host_peak_bytes for reading in readings),
            max(reading.host_retained_bytes for reading in readings),
        )
        table.add_row(
            phase,
            *(f"{nbytes / _MIB:,.3f}" for nbytes in memory),
            f"{max(reading.seconds for reading in readings):.4f}",
            f"{max(reading.host_calls for reading in readings):,}",
            f"{max(sum(count for count, _ in reading.collectives.values()) for reading in readings):,}",
        )
    return table


def _loss_scales(result: Result) -> Iterator[str]:
    """Yield the skipped steps and loss scales of each model trained in fp16."""
    first = result.record.ranks[0] if result.record is not None else None
    if first is None:
        return
    for name, numerics in {"": first.numerics, **first.models}.items():
        if numerics is not None and numerics.loss_scales:
            steps, scales = len(numerics.loss_scales), [f"{scale:g}" for scale in numerics.loss_scales[-3:]]
            of = f" of {name}" if name else ""
            yield f"fp16: {numerics.skipped_steps} of {steps} steps{of} skipped; loss scale at the end: {', '.join(scales)}"


def _models(result: Result) -> Iterator[str]:
    """Yield the models' estimates for a simulated cell that names its card: the use of its bytes, and the time of a step."""
    cell = result.cell
    name = cell.parameters.get("gpu")
    if cell.device != "sim" or name is None or "world_size" not in cell.parameters:
        return
    card = gpus.known_card(str(name))
    if card is None:
        yield f"no statement about its card: unknown card {name}"
        return
    question = card_fit.FitQuery(
        scenario=cell.scenario,
        variant=cell.variant,
        cards=(card,),
        ranks=(cell.parameters["world_size"],),
    )
    line = card_fit.judge_cell(question, question.cards[0], result)
    if line.traffic is not None and line.traffic.inside_bytes + line.traffic.between_bytes:
        inside, between = (quantity(size, "bytes") for size in (line.traffic.inside_bytes, line.traffic.between_bytes))
        nodes = f"nodes of {question.gpus_per_node}"
        yield f"in a step a rank sends {inside} inside {nodes}, {between} between them ({line.traffic.share_between:.0%})"
    if time := _step_time(line, question.cards[0]):
        yield time


def _step_time(line: card_fit.FitLine, card: gpus.Card) -> str:
    if line.least_step_s is None:
        return line.dtype_note
    phases = ", ".join(
        f"{phase} {quantity(bound.least_s, 's')} ({bound.limit})" for phase, bound in line.bounds.items()
    )
    least = f"on {card.name} a step takes at least {quantity(line.least_step_s, 's')}, by a model: {phases}"
    if line.estimated_step_s is None:
        return least
    error = estimate.largest_error(card) * 100
    return f"{least}; about {quantity(line.estimated_step_s, 's')} are to be expected, give or take {error:.0f} %"
