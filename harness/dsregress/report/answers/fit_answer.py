"""The answer to ``fit``: for a terminal, as Markdown, as JSON. Everything modelled is called a model."""

from __future__ import annotations

from typing import Any

import msgspec

from dsregress.advice.card_fit import BreakPoint, FitAnswer, FitLine
from dsregress.advice.gpus import estimate
from dsregress.model import Passed
from dsregress.report.answers import measured_by
from dsregress.report.plain_text import aligned, markdown, markdown_table, plain
from dsregress.wording.names import common_additions, outcome_text, stack_names
from dsregress.wording.quantities import plural, quantity
from vgpu.card_room import OUTSIDE_SEEN_BYTES, OUTSIDE_SEEN_OVER_NODES_BYTES, SPARE_SHARE, Certainty

#: Of ``--json``. History: 1 first.
SCHEMA = 1

_TITLES = {"layers": "layers", "sequence_length": "sequence", "micro_batch_size": "micro-batch"}


def fits_text(answer: FitAnswer) -> str:
    """Return the answer for a terminal, ending in a newline. Columns are as wide as their content, and never cut."""
    blocks = [plain(_heading(answer))]
    for card in answer.question.cards:
        rows = _fit_rows(answer, card.name)
        blocks.append("\n".join([plain(_card_line(answer, card.name)), *aligned(_columns(answer), rows)]))
    blocks.append("\n".join(plain(line) for line in (*_conclusions(answer), "", *_notes(answer))))
    return "\n\n".join(blocks) + "\n"


def fits_markdown(answer: FitAnswer) -> str:
    """Return the answer in GitHub-flavored Markdown, ending in a newline."""
    columns = _columns(answer)
    lines = [f"### {markdown(_heading(answer))}"]
    for card in answer.question.cards:
        lines += ["", f"**{markdown(_card_line(answer, card.name))}**", ""]
        lines += markdown_table(columns, _fit_rows(answer, card.name))
    lines += ["", *(f"- {markdown(line)}" for line in (*_conclusions(answer), *_notes(answer)))]
    return "\n".join(lines) + "\n"


def fits_json(answer: FitAnswer) -> bytes:
    """Return everything as JSON, with a schema number, in bytes and seconds. ``least_step_s`` and ``estimated_step_s`` are
    models."""
    question = answer.question
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "scenario": question.scenario,
        "variant": question.variant,
        "variants": question.variants,
        "overhead_bytes": question.overhead_bytes,
        "gpus_per_node": question.gpus_per_node,
        "network_gbits_per_gpu": question.network_gbits_per_gpu,
        "gpus": [{**msgspec.to_builtins(card), "usable_bytes": card.usable_bytes} for card in question.cards],
        "stacks": [{"id": stack.id, "versions": stack.versions} for stack in answer.stacks],
        "lines": [
            {
                **msgspec.to_builtins(line),
                "fits": line.fits,
                "may_not_hold": line.fits and line.certainty is Certainty.TOO_CLOSE,
                "certainty": line.certainty.value if line.certainty else None,
                "headroom_bytes": line.headroom_bytes,
                "least_step_s": line.least_step_s,
            }
            for line in answer.lines
        ],
        "smallest_ranks": answer.smallest,
        "break_points": msgspec.to_builtins(answer.break_points),
        "measured_by": msgspec.to_builtins(answer.measured_by),
        "notes": list(answer.notes),
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _heading(answer: FitAnswer) -> str:
    question = answer.question
    variant = "" if question.variant == "base" or question.others else f", {question.variant}"
    added = common_additions(answer.stacks)
    with_ = f" with {', '.join(added)}" if added else ""
    return f"{question.scenario}{variant}, simulated{with_}: does it fit?"


def _card_line(answer: FitAnswer, name: str) -> str:
    card = next(card for card in answer.question.cards if card.name == name)
    overhead = answer.question.overhead_bytes
    usable, kept, left = (_short_size(b) for b in (card.usable_bytes, overhead, card.usable_bytes - overhead))
    return f"{name}: {left} for tensors ({usable} usable, {kept} set aside for CUDA and NCCL)"


def _columns(answer: FitAnswer) -> list[str]:
    swept = (
        [_TITLES.get(answer.question.sweep.parameter, answer.question.sweep.parameter)] if answer.question.sweep else []
    )
    several = answer.question.others
    return [
        "stack",
        *(["variant"] if several else []),
        "ranks",
        *swept,
        *("peak", "in"),
        *(["reserves"] if _reserves(answer) else []),
        *("held bwd", "host/node", "headroom"),
        *(["sent/step"] if several else []),
        *("verdict", "step time, model"),
    ]


def _fit_rows(answer: FitAnswer, card: str) -> list[list[str]]:
    names = stack_names(answer.stacks)
    return [_row(line, names[line.stack], answer) for line in answer.lines if line.card == card]


def _row(line: FitLine, name: str, answer: FitAnswer) -> list[str]:
    swept = [f"{line.value:,}"] if answer.question.sweep else []
    first = [name, *([line.variant] if answer.question.others else []), f"{line.ranks:,}"]
    if line.peak_bytes is None:
        verdict = outcome_text(line.outcome) if not isinstance(line.outcome, Passed) else "no measurement"
        unknown = 5 + bool(answer.question.others) + _reserves(answer)
        return [*first, *swept, *["-"] * unknown, verdict, "-"]
    least = line.least_step_s
    slowest = max(line.bounds, key=lambda phase: line.bounds[phase].least_s) if line.bounds else ""
    about = "" if line.estimated_step_s is None else f"; about {quantity(line.estimated_step_s, 's')}"
    return [
        *first,
        *swept,
        _short_size(line.peak_bytes),
        line.peak_phase,
        *([_range(line.reserved_bytes)] if _reserves(answer) else []),
        _short_size(line.held_after_backward_bytes or 0),
        _short_size(line.host_bytes_per_node or 0),
        _short_size(line.headroom_bytes or 0),
        *([_short_size(line.sent_bytes)] if answer.question.others else []),
        line.verdict,
        f">= {quantity(least, 's')}, {line.bounds[slowest].limit}{about}" if least is not None else line.dtype_note,
    ]


def _conclusions(answer: FitAnswer) -> list[str]:
    names = stack_names(answer.stacks)
    lines = []
    for card, by_stack in answer.smallest.items() if not answer.question.others else ():
        for stack, ranks in by_stack.items():
            tried = ", ".join(f"{ranks:,}" for ranks in sorted(answer.question.ranks))
            found = f"fits from {plural(ranks, 'rank')} on" if ranks is not None else f"fits on none of {tried} ranks"
            lines.append(f"{names[stack]} on {card}: {found}")
    return lines + [_break(point, names[point.stack]) for point in answer.break_points]


def _break(point: BreakPoint, name: str) -> str:
    title = _TITLES.get(point.parameter, point.parameter)
    variant = "" if point.variant == "base" else f", {point.variant}"
    where = f"{name} on {point.card}, {plural(point.ranks, 'rank')}{variant}"
    if point.first_failing is None:
        return f"{where}: {title} {point.largest_fitting:,}, the largest tried, fits"
    if point.largest_fitting is None:
        return f"{where}: not even {title} {point.first_failing:,} fits ({point.reason})"
    return f"{where}: fits up to {title} {point.largest_fitting:,}; {point.first_failing:,} does not ({point.reason})"


def _notes(answer: FitAnswer) -> list[str]:
    counted = {line.counted for line in answer.lines if line.peak_bytes is not None}
    notes = []
    if counted == {"allocated"}:
        notes.append("Peaks are allocated bytes; what the allocator reserves beyond them is not counted.")
    elif counted:
        notes.append(
            "Peaks are what PyTorch's caching allocator needs, by a model of it. It reserves more on a card that has more; "
            "a range is for the timing of streams."
        )
    certainties = {line.certainty for line in answer.lines}
    if certainties & {Certainty.TOO_CLOSE, Certainty.BARELY_FITS}:
        least, most = (_short_size(size) for size in OUTSIDE_SEEN_BYTES)
        notes.append(
            f"CUDA and NCCL were seen to take {least} to {most} of a card on one node, and up to "
            f"{_short_size(OUTSIDE_SEEN_OVER_NODES_BYTES)} over several (docs/fit.md has the jobs)."
        )
    if Certainty.TOO_CLOSE in certainties:
        notes.append("Too close to call: it fits with the least of it, and not with the most.")
    if Certainty.BARELY_FITS in certainties:
        notes.append(
            f"Less than ... to spare: it fits with the most of it, by less than {SPARE_SHARE:.0%} of what it needs, within "
            "which predictions of reserved memory should be."
        )
    for card, taken in {(line.card, line.taken_bytes): None for line in answer.lines if line.taken_bytes}:
        notes.append(
            f"The generation engine beside the job takes {_short_size(taken)} of each {card}: it is not simulated, but "
            "subtracted."
        )
    notes.append(
        "Step time is a model, not a measurement: no release can be faster on this hardware "
        f"(peak FLOP/s, links, {answer.question.network_gbits_per_gpu:g} Gb/s of network per GPU)."
    )
    if estimated := {line.card for line in answer.lines if line.estimated_step_s is not None}:
        error = max(estimate.largest_error(card) for card in answer.question.cards if card.name in estimated)
        notes.append(
            f"About: what to expect, by a calibrated model; it misses published jobs by {error * 100:.0f} % at most."
        )
    return [*notes, *(f"{note}." for note in answer.notes), *measured_by.sources(answer.measured_by)]


def _short_size(size: int) -> str:
    return f"{size / (1 << 30):,.2f} GiB"


def _reserves(answer: FitAnswer) -> bool:
    """Return True if any line has a range of reserved bytes."""
    return any(line.reserved_bytes is not None for line in answer.lines)


def _range(sizes: tuple[int, int] | None) -> str:
    if sizes is None:
        return "-"
    least, most = (f"{size / (1 << 30):,.2f}" for size in sizes)
    return f"{least} GiB" if least == most else f"{least} to {most} GiB"
