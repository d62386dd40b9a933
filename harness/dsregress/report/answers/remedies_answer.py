"""The answer to ``remedies``: for a terminal, as Markdown, as JSON. Everything modelled is called a model."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dsregress.advice.cases import MATTERS, Case, gained_bytes, saved_bytes, shortage_bytes
from dsregress.advice.remedy_cases import RemediesAnswer
from dsregress.model import Failed, Passed
from dsregress.probe.border.wire import PHASES, REGULAR_PHASES
from dsregress.report.answers import measured_by
from dsregress.report.plain_text import aligned, markdown, markdown_table, plain
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import plural, quantity, share

#: Of ``--json``. History: 1 first.
SCHEMA = 1

#: A share of the unmodified work; a smaller difference is not quantified.
_TOLD = 0.0001


def remedies_text(answers: Sequence[RemediesAnswer]) -> str:
    """Return the answers for a terminal, ending in a newline. Columns are as wide as their content, and never cut."""
    return "\n".join(_text(answer) for answer in answers)


def remedies_markdown(answers: Sequence[RemediesAnswer]) -> str:
    """Return the answers in GitHub-flavored Markdown, ending in a newline."""
    return "\n".join(_as_markdown(answer) for answer in answers)


def remedies_json(answers: Sequence[RemediesAnswer]) -> bytes:
    """Return everything as JSON, with a schema number, in bytes and seconds. ``least_step_s`` is a model."""
    content = {"schema": SCHEMA, "answers": [_as_dict(answer) for answer in answers]}
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def does(base: Case, case: Case) -> str:
    """Return the effect of a remedy on the peak, in words."""
    if not isinstance(case.outcome, Passed):
        return outcome_text(case.outcome)
    saved, gained = saved_bytes(base, case), gained_bytes(base, case)
    if saved is None or gained is None:
        return "runs, where the unmodified case does not" if case.peak_bytes is not None else "no measurement"
    before, after = (
        case.phases["backward"].device_retained_bytes if "backward" in case.phases else 0 for case in (base, case)
    )
    if gained == 0 and before != after:
        return f"leaves the peak, holds {'less' if after < before else 'more'} after backward"
    if gained == 0:
        return "changes nothing"
    if abs(gained) < MATTERS * (base.peak_bytes or 0):
        return "changes hardly anything"
    more = gained - saved  # of the card
    left = f": leaves the job {_bytes(abs(more))} {'more' if more > 0 else 'less'}" if more else ""
    return ("helps" if gained > 0 else "makes it worse") + left


def _text(answer: RemediesAnswer) -> str:
    blocks = [plain(_heading(answer))]
    lines = [plain(_card_line(answer))] if answer.question.card else []
    blocks.append("\n".join([*lines, *aligned(_columns(answer), _case_rows(answer))]))
    blocks.append("\n".join(["bytes by phase, of the worst rank", *aligned(*_by_phase(answer))]))
    blocks.append("\n".join(plain(line) for line in (*_conclusions(answer), "", *_notes(answer))))
    return "\n\n".join(blocks) + "\n"


def _as_markdown(answer: RemediesAnswer) -> str:
    lines = [f"### {markdown(_heading(answer))}", ""]
    if answer.question.card:
        lines += [f"**{markdown(_card_line(answer))}**", ""]
    lines += markdown_table(_columns(answer), _case_rows(answer))
    lines += ["", "Bytes by phase, of the worst rank:", "", *markdown_table(*_by_phase(answer))]
    lines += ["", *(f"- {markdown(line)}" for line in (*_conclusions(answer), *_notes(answer)))]
    return "\n".join(lines) + "\n"


def _as_dict(answer: RemediesAnswer) -> dict[str, object]:
    question = answer.question
    return {
        "scenario": question.scenario,
        "variant": question.variant,
        "device": question.device,
        "gpu": None if question.card is None else question.card.name,
        "overhead_bytes": question.overhead_bytes,
        "stack": {"id": answer.stack.id, "versions": answer.stack.versions},
        "unmodified": _case(answer.base, answer.base),
        "alone": [_case(answer.base, case) for case in answer.alone],
        "combinations_tried": [_case(answer.base, case) for case in answer.tried],
        "best_combination": None if answer.best is None else list(answer.best.remedies),
        "fits_with": [list(case.remedies) for case in answer.fitting],
        "not_run": msgspec.to_builtins(answer.not_tried),
        "measured_by": msgspec.to_builtins(answer.measured_by),
        "notes": list(answer.notes),
    }


def _case(base: Case, case: Case) -> dict[str, object]:
    return {
        **msgspec.to_builtins(case),
        "does": "" if case is base else does(base, case),
        "saved_bytes": saved_bytes(base, case),
        "headroom_bytes": case.headroom_bytes,
        "fits": case.fits,
        "flops": case.flops,
        "communicated_bytes": case.communicated_bytes,
    }


def _heading(answer: RemediesAnswer) -> str:
    question = answer.question
    what = [question.scenario] + ([] if question.variant == "base" else [question.variant])
    if question.ranks is not None:
        what.append(plural(question.ranks, "rank"))
    what.append(answer.stack.label or answer.stack.id)
    how = {"sim": "simulated", "cpu": "run on CPU", "cuda": "run on GPU"}[question.device]
    return f"{', '.join(what)}, {how}: what does each remedy buy?"


def _card_line(answer: RemediesAnswer) -> str:
    card, kept = answer.question.card, answer.question.overhead_bytes
    assert card is not None
    usable, aside, left = (quantity(b, "bytes") for b in (card.usable_bytes, kept, card.usable_bytes - kept))
    return f"{card.name}: {left} for tensors ({usable} usable, {aside} set aside for CUDA and NCCL)"


def _columns(answer: RemediesAnswer) -> list[str]:
    columns = ["remedy", "peak", "in", "saved", "effect", "host/rank", "FLOPs", "communicated"]
    columns.append("step time, model" if answer.question.device == "sim" else "step time")
    if _judged(answer):
        columns += ["headroom", "verdict"]
    return columns


def _judged(answer: RemediesAnswer) -> bool:
    """Return True if the cases are judged against a card."""
    return answer.question.card is not None and answer.question.device != "cpu"


def _cases(answer: RemediesAnswer) -> list[Case]:
    return [answer.base, *answer.alone, *answer.tried]


def _case_rows(answer: RemediesAnswer) -> list[list[str]]:
    return [_row(answer, case) for case in _cases(answer)]


def _row(answer: RemediesAnswer, case: Case) -> list[str]:
    base = answer.base
    effect = "-" if case is base else does(base, case)
    if case.peak_bytes is None:
        ended = f"failed in {case.outcome.stage}" if isinstance(case.outcome, Failed) else outcome_text(case.outcome)
        return [case.name, "-", "-", "-", ended, *("-" for _ in _columns(answer)[5:])]
    saved = saved_bytes(base, case)
    row = [
        case.name,
        _bytes(case.peak_bytes),
        case.peak_phase,
        "-" if case is base or saved is None else _bytes(saved),
        effect,
        _bytes(case.host_peak_bytes or 0),
        quantity(case.flops, "operations") if case is base else _against(case.flops, base.flops, "operations"),
        _bytes(case.communicated_bytes)
        if case is base
        else _against(case.communicated_bytes, base.communicated_bytes, "bytes"),
        _time(answer, case),
    ]
    if _judged(answer):
        remarks = [case.verdict, *([case.dtype_note] if case.dtype_note else [])]
        row += [_bytes(case.headroom_bytes or 0), ", ".join(remarks)]
    return row


def _against(value: int, base: int, unit: str) -> str:
    """Return a figure relative to the unmodified case's; the figure itself if that case did not run and has none."""
    if value == base:
        return "same"
    if base and abs(value - base) < _TOLD * base:
        return f"within {_TOLD * 100:g} %"
    return share(value, base) if base else quantity(value, unit)


def _time(answer: RemediesAnswer, case: Case) -> str:
    if answer.question.device == "sim":
        return "-" if case.least_step_s is None else f">= {quantity(case.least_step_s, 's')}"
    return "-" if case.step_s is None else quantity(case.step_s, "s")


def _by_phase(answer: RemediesAnswer) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the table of bytes by phase."""
    cases = [case for case in _cases(answer) if case.phases]
    shown = [p for p in PHASES if p in REGULAR_PHASES or any(p in case.phases for case in cases)]
    columns = ["remedy", *(f"device {phase}" for phase in shown), "held bwd", *(f"host {phase}" for phase in shown)]
    return columns, [_phase_row(case, shown) for case in cases]


def _phase_row(case: Case, shown: Sequence[str]) -> list[str]:
    phases = [case.phases.get(phase) for phase in shown]
    backward = case.phases.get("backward")
    return [
        case.name,
        *("-" if phase is None else _bytes(phase.device_peak_bytes) for phase in phases),
        "-" if backward is None else _bytes(backward.device_retained_bytes),
        *("-" if phase is None else _bytes(phase.host_peak_bytes) for phase in phases),
    ]


def _conclusions(answer: RemediesAnswer) -> list[str]:
    base = answer.base
    lines = []
    if _judged(answer) and answer.question.card is not None:
        card, fitting = answer.question.card.name, answer.fitting
        if base.fits:
            lines.append(f"fits {card} as it is")
        if fitting and len(fitting[0].remedies) == 1:
            lines.append(f"fits {card} with one remedy: {'; '.join(case.name for case in fitting)}")
        elif fitting:
            lines.append(f"fits {card} with {len(fitting[0].remedies)} remedies: {'; '.join(c.name for c in fitting)}")
        elif not base.fits:
            lines.append(f"no remedy makes it fit {card}, nor does a combination that was tried")
    for words, about in (
        ("helps", "helps"),
        ("makes it worse", "makes it worse"),
        (("changes", "leaves"), "does little or nothing for the peak"),
    ):
        found = [case for case in answer.alone if does(base, case).startswith(words)]
        if found:
            ordered = sorted(found, key=shortage_bytes, reverse=about == "makes it worse")
            lines.append(f"{about}: {'; '.join(_name_with_saving(base, case) for case in ordered)}")
    if base.peak_bytes is None:
        lines.append(f"the unmodified case did not run to its end: {outcome_text(base.outcome)}")
    lines += [f"cannot be used here: {c.name}: {does(base, c)}" for c in answer.alone if c.peak_bytes is None]
    lines += [f"not run: {remedy.name}: {remedy.reason}" for remedy in answer.not_tried]
    if answer.best is not None:
        saved = f", {_bytes(saved_bytes(base, answer.best) or 0)} less" if base.peak_bytes is not None else ""
        lines.append(f"best combination: {answer.best.name}: peak {_bytes(answer.best.peak_bytes or 0)}{saved}")
    else:
        lines.append("best combination: none of those tried is better than the best remedy alone")
    return lines


def _name_with_saving(base: Case, case: Case) -> str:
    saved = saved_bytes(base, case)
    sign = "" if saved is None or saved > 0 else "+"
    return f"{case.name} ({sign}{_bytes(-saved)})" if saved else case.name


def _notes(answer: RemediesAnswer) -> list[str]:
    tried = plural(len(answer.tried), "combination")
    notes = [
        f"{tried} tried, each a run of its own: of the remedies that help alone, the strongest first, each is kept if the "
        f"peak falls by {MATTERS * 100:g} % more of the unmodified one. A better one may exist. Other releases stand alone."
    ]
    counted = {case.counted for case in _cases(answer) if case.peak_bytes is not None}
    if counted == {"allocated"}:
        notes.append("Peaks are allocated bytes; what the allocator reserves beyond them is not counted.")
    elif counted:
        by = ", by a model of it" if answer.question.device == "sim" else ""
        notes.append(f"Peaks are what PyTorch's caching allocator needs{by}; bytes by phase are what is allocated.")
    if answer.base.taken_bytes and answer.question.card is not None:
        kept = f"{_bytes(answer.base.taken_bytes)} of the {answer.question.card.name}"
        notes.append(f"The generation engine beside the unmodified job keeps {kept}: not simulated, taken off.")
    notes.append("FLOPs and communicated bytes are of one rank's step, against the unmodified case.")
    if answer.question.device == "sim":
        notes.append(
            "Step time is a model, not a measurement: no release can be faster on this card. It leaves out copies between "
            "device and host and work on the host, which is what offloading costs."
        )
    else:
        notes.append(
            "Step time is the median of the timed rounds. Cases ran one after another: a small difference says nothing."
        )
    return [*notes, *(f"{note}." for note in answer.notes), *measured_by.sources(answer.measured_by)]


def _bytes(size: int) -> str:
    return quantity(size, "bytes")
