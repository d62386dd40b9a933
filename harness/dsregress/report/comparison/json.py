"""The report for programs: everything, under a schema number.

Schema history:
  2  problems, worst first; ``summary.sentences`` has one for each; spans are gone. ``smallest_card_bytes`` and
     ``reserved_peak_bytes`` have one finding for all phases, of the phase that needs most
  1  baseline, stacks, cells, findings; and names, summary, spans, step_times, control, not_compared, notes
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dsregress.compare import StepTime
from dsregress.compare.comparison import NotJudged
from dsregress.compare.finding_groups import severity
from dsregress.compare.outcomes import signature_text, stage_of
from dsregress.compare.result_summary import ResultSummary
from dsregress.compare.worst_readings import Exact, collectives_by_kind
from dsregress.errors import ResultsError
from dsregress.model import Finding, OutOfMemory, Skipped
from dsregress.report.context import ReportContext
from dsregress.report.finding_fields import finding_fields
from dsregress.report.plain_text import plain
from dsregress.report.problem_lines import ProblemLine
from dsregress.report.report_view import report_view
from dsregress.system.files import write_requested

SCHEMA = 2

_encode = msgspec.json.Encoder().encode


def comparison_json_chunks(context: ReportContext) -> Iterator[bytes]:
    """Yield the report in pieces, so that the text of its many cells is never held in memory at once."""
    report = report_view(context)
    lines = report.screen.problems
    head = {
        "schema": SCHEMA,
        "baseline": context.comparison.baseline,
        "exit_code": context.exit_code,
        "summary": {
            "answer": report.screen.recommendation,
            "verdict": report.screen.headline,
            "measured": report.measured,
            "sentences": [f"{line.releases}: {line.sentences}" for line in lines],
        },
        "stacks": [
            {"id": s.id, "name": context.name_of(s.id), "label": s.label, "python": s.python, "versions": s.versions}
            for s in context.comparison.stacks
        ],
    }
    yield _encode(head)[:-1] + b',\n"cells": [\n'
    worst: dict[Exact, dict[str, Any]] = {}
    yield from _json_array(_cell_json(cell, worst) for cell in context.comparison.cells)
    yield b'],\n"findings": [\n'
    headlines = {group.headline.key for group in context.comparison.groups}
    worst_first = sorted(context.comparison.findings, key=severity)
    yield from _json_array({**_finding_json(found), "headline": found.key in headlines} for found in worst_first)
    tail = {
        "small_differences": context.comparison.small_differences,
        "problems": [_problem_json(line) for line in lines],
        "step_times": _times(context.comparison.step_times),
        "control": _times(context.comparison.control),
        "not_compared": msgspec.to_builtins(context.comparison.not_compared),
        "not_judged": [_not_judged(missing) for missing in context.comparison.not_judged],
        "notes": context.comparison.notes,
    }
    yield b"],\n" + _encode(tail)[1:] + b"\n"


def comparison_json(context: ReportContext) -> bytes:
    """Return the whole report at once."""
    return b"".join(comparison_json_chunks(context))


def write_comparison_json(context: ReportContext, file: Path) -> None:
    """Write the report into a file, whole or not at all. Raise ResultsError if the file cannot be written."""
    try:
        write_requested(file, comparison_json_chunks(context))
    except OSError as error:
        raise ResultsError(
            f"cannot be written: {error.strerror}", where=str(file), hint="give --json another place"
        ) from error


def _json_array(values: Iterator[dict[str, object]]) -> Iterator[bytes]:
    before = b""
    for value in values:
        yield before + _encode(value)
        before = b",\n"
    yield b"\n"


def _cell_json(cell: ResultSummary, known: dict[Exact, dict[str, Any]]) -> dict[str, object]:
    """Return a cell as JSON. ``known`` caches what follows from exact values alone, which cells share."""
    result = cell.result
    shared = known.get(cell.exact)
    if shared is None:
        shared = known[cell.exact] = {"metrics": cell.worst(), "collectives": _collectives(cell)}
    outcome = result.outcome
    return {
        "id": result.cell.id,
        "stack": result.cell.stack.id,
        "scenario": result.cell.scenario,
        "variant": result.cell.variant,
        "device": result.cell.device,
        "outcome": outcome.__struct_config__.tag,
        "stage": stage_of(outcome),
        "signature": plain(outcome.reason if isinstance(outcome, Skipped) else signature_text(outcome)),
        "metrics": {**shared["metrics"], **{name: _finite(value) for name, value in cell.noisy().items()}},
        "scenario_version": result.cell.scenario_version,
        "collectives": shared["collectives"],
        "rounds_s": cell.round_s,
        "session": result.session,
        "lock_sha256": result.lock_sha256,
        "code_sha256": result.code_sha256,
        "image": result.image,
        "out_of_memory": isinstance(outcome, OutOfMemory),
    }


def _collectives(cell: ResultSummary) -> dict[str, dict[str, dict[str, int]]]:
    """Return phase -> kind -> count and bytes, of the first rank."""
    exact = cell.exact
    first = exact[0].rank if exact else 0
    found = {row.phase: collectives_by_kind(exact, row.phase, first) for row in exact if row.rank == first}
    return {
        phase: {kind: {"count": pair[0], "bytes": pair[1]} for kind, pair in kinds.items()}
        for phase, kinds in found.items()
        if kinds
    }


def _finding_json(found: Finding) -> dict[str, object]:
    return {
        "cell": found.cell,
        **finding_fields(found),
        "value": _finite(found.value),
        "baseline_value": _finite(found.baseline_value),
        "message": plain(found.message),
        "evidence": [plain(line) for line in found.evidence],
    }


def _problem_json(line: ProblemLine) -> dict[str, object]:
    return {
        "kind": line.kind.name.lower(),
        "releases": line.releases,
        "text": line.sentences,
        "since": line.since,
        "until": line.until,
        "having": line.having,
        "free": line.free,
        "unknown": line.unknown,
        "workloads": line.workloads,
        "release_to_use": line.release_to_use,
        "setting": line.setting,
        "evidence": [plain(text) for text in line.evidence],
        "related": [plain(text) for text in line.related],
        "findings": len(line.keys),
    }


def _not_judged(missing: NotJudged) -> dict[str, object]:
    cells = [f"{stack}/{workload}" for workload, stacks in missing.stacks_by_workload.items() for stack in stacks]
    return {"oracle": missing.oracle, "reason": plain(missing.reason), "cells": cells}


def _times(times: Sequence[StepTime]) -> list[dict[str, object]]:
    return [msgspec.structs.asdict(time) for time in times]


def _finite(value: object) -> object:
    """Return a value for JSON, which has no infinity and no NaN: they become text. Text is made printable."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
