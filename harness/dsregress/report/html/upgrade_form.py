"""Data for the question on the first page: may I upgrade from one release to another? A script answers it in the reader's
browser by the rule of `dsregress.advice.upgrade_judgement`, for the reader's kind of training and card."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.advice import gpus
from dsregress.advice.capacity import OVERHEAD_BYTES
from dsregress.compare import Problem
from dsregress.compare.comparison import EVERYTHING, DetailOf
from dsregress.model import Stack, split_workload
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import plain
from dsregress.report.problem_lines import TITLES, ProblemLine
from dsregress.wording import commands
from dsregress.wording.names import stored_name

#: Parameter of other workloads -> the end of the key by which a program's effective configuration has the same.
_CONFIGURED: Mapping[str, str] = {
    "model": "model.model_type",
    "zero_stage": "deepspeed.zero_optimization_stage",
    "gradient_accumulation_steps": "deepspeed.gradient_accumulation_steps",
    "offload_optimizer": "deepspeed.zero_config.offload_optimizer.device",
    "offload_param": "deepspeed.zero_config.offload_param.device",
}

#: The factors that distinguish kinds of training, each with a function of a workload's parameters; None if they lack it.
_FACTORS: Mapping[str, Callable[[Mapping[str, Any]], str | None]] = {
    "Model": lambda own: _parameter_text(own, "model"),
    "ZeRO stage": lambda own: _parameter_text(own, "zero_stage"),
    "Accumulation": lambda own: _parameter_text(own, "gradient_accumulation_steps"),
    "Offload": lambda own: _offload(own),
    "LoRA": lambda own: ("yes" if own["lora_rank"] else "no") if "lora_rank" in own else None,
}


class FormField(msgspec.Struct, frozen=True):
    """A field of the form, in which the reader chooses a value."""

    title: str
    values: tuple[str, ...]


class UpgradeForm(msgspec.Struct, frozen=True, kw_only=True):
    """The reader's choices besides the two releases. Empty if there is only one release."""

    data: str = ""  #: the address of the script with the data
    factors: tuple[FormField, ...] = ()  #: those in which workloads differ
    cards: tuple[str, ...] = ()


#: Workload -> factor -> its value.
Kinds = Mapping[str, Mapping[str, str]]


def kinds_of_training(context: ReportContext, detail_of: DetailOf) -> Kinds:
    """Return the kind of training of each workload, by its parameters. A program's parameters have other names; its kind
    follows from the configuration of its engines, as far as they agree."""
    found = {}
    for workload in context.comparison.cells.workloads:
        own = context.comparison.parameters[workload]
        if "program" in own and "zero_stage" not in own:
            own = {**_configured(context, workload, detail_of), **own}
        found[workload] = {title: plain(value) for title, read in _FACTORS.items() if (value := read(own)) is not None}
    return found


def _configured(context: ReportContext, workload: str, detail_of: DetailOf) -> dict[str, object]:
    """Return the parameters that the first run with a stored configuration had."""
    for stack in context.comparison.cells.stacks_of(workload):
        cell = context.comparison.cells.of(stack, workload)
        detail = detail_of(cell.result) if cell is not None else None
        if detail is not None and detail.configuration:
            break
    else:
        return {}
    found: dict[str, Any] = {}
    for name, key in _CONFIGURED.items():
        values = {str(value) for own, value in detail.configuration.items() if own == key or own.endswith(f".{key}")}
        if len(values) == 1:
            found[name] = values.pop()
    if "zero_stage" in found:  # an offload that is not configured has no device
        for name in ("offload_optimizer", "offload_param"):
            found[name] = found.get(name, "none").lower() != "none"
    return found


def upgrade_form(context: ReportContext, kinds: Kinds) -> UpgradeForm:
    """Return the form: factors with several values, and cards if anything was simulated. ``kinds`` are the
    `kinds_of_training`."""
    if len(context.comparison.stacks) < 2:
        return UpgradeForm()
    said = kinds.values()
    values = {title: sorted({own[title] for own in said if title in own}, key=_choice_order) for title in _FACTORS}
    return UpgradeForm(
        data=urls.UPGRADE_DATA,
        factors=tuple(FormField(title, tuple(map(plain, found))) for title, found in values.items() if len(found) > 1),
        cards=tuple(gpus.catalogue()) if any(w.endswith("/sim") for w in context.comparison.cells.workloads) else (),
    )


def upgrade_data(context: ReportContext, kinds: Kinds, lines: Sequence[ProblemLine], pages: Mapping[int, str]) -> bytes:
    """Return the script with the data. ``kinds`` are the `kinds_of_training`, ``lines`` the report's problems, ``pages`` the
    problems' pages by number. Raise ResultsError as `ReportContext.rooms` does."""
    comparison = context.comparison
    place = {workload: at for at, workload in enumerate(comparison.cells.workloads)}
    unjudged = {(left.stack, left.workload) for left in comparison.not_compared if left.what == EVERYTHING}
    problems = {problem.worst.key: problem for problem in comparison.problems}
    content = {
        "releases": [_release_json(context, stack) for stack in comparison.stacks],
        "workloads": [_workload_json(context, workload, kinds[workload], unjudged) for workload in place],
        "problems": [
            _problem_json(context, problem, line, pages[line.number], place)
            for line in lines
            if (problem := problems.get(line.worst.key)) is not None
        ],
        "cards": {card.name: card.usable_bytes for card in gpus.catalogue().values()},
        "overhead": OVERHEAD_BYTES,
        "command": commands.compare("FROM", "TO") if context.only_axis else "",
    }
    return b"dsregressUpgrade(" + msgspec.json.encode(content) + b")\n"


def _release_json(context: ReportContext, stack: Stack) -> dict[str, object]:
    axis = context.only_axis
    return {
        "name": plain(context.name_of(stack.id)),
        "page": urls.release_page(stack.id),
        "argument": shlex.quote(stored_name(stack, axis)) if axis else "",  # of the command
    }


def _workload_json(
    context: ReportContext, workload: str, kind: Mapping[str, str], unjudged: Collection[tuple[str, str]]
) -> dict[str, object]:
    parameters = context.comparison.parameters[workload]
    card = gpus.named_card(parameters)
    is_simulated = split_workload(workload).device == "sim"
    return {
        "name": plain(workload),
        "page": urls.workload_page(workload),
        "said": kind,
        "card": card.name if card is not None else "",
        "share": float(parameters.get("gpu_memory_utilization") or 0.0),
        # A letter for each release.
        "ran": "".join(_standing(context, stack, workload, unjudged) for stack in context.stacks),
        "needs": [_needed_bytes(context, stack, workload) for stack in context.stacks] if is_simulated else [],
    }


def _standing(context: ReportContext, stack: str, workload: str, unjudged: Collection[tuple[str, str]]) -> str:
    """Return ``-`` for a cell that does not exist, ``f`` for one that failed, ``u`` without a verdict, else ``c``."""
    comparison = context.comparison
    if stack not in comparison.cells.stacks_of(workload):
        return "-"
    if stack in comparison.ended.get(workload, {}):
        return "f"
    return "u" if (stack, workload) in unjudged else "c"


def _needed_bytes(context: ReportContext, stack: str, workload: str) -> int | None:
    room = context.rooms.of(stack, workload)
    return None if room is None else room.own.peak_bytes


def _problem_json(
    context: ReportContext, problem: Problem, line: ProblemLine, page: str, place: Mapping[str, int]
) -> dict[str, object]:
    return {
        "kind": problem.kind.name,
        "is_cost": problem.kind.is_cost,
        "is_intermittent": problem.worst.intermittent,
        "title": TITLES[problem.kind].capitalize(),
        "text": line.sentences,
        "since": line.since,
        "until": line.until,
        "setting": line.setting.partition(".")[2] or line.setting,
        "page": page,
        "on": {
            str(place[workload]): [context.order[stack] for stack in having]
            for workload, having in problem.affected.items()
        },
    }


def _parameter_text(own: Mapping[str, object], name: str) -> str | None:
    return str(own[name]) if name in own else None


def _offload(own: Mapping[str, object]) -> str | None:
    places = {"offload_optimizer": "optimizer", "offload_param": "parameters"}
    if not any(name in own for name in places):
        return None
    return " and ".join(word for name, word in places.items() if own.get(name)) or "no"


def _choice_order(value: str) -> tuple[bool, int, str]:
    """Return a key that sorts numbers by size, before words."""
    return not value.isdecimal(), int(value) if value.isdecimal() else 0, value
