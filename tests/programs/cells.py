"""Runs a program as a cell: what several tests of programs share."""

from __future__ import annotations

import os
import types
from pathlib import Path
from typing import Any

from dsregress.probe.adapters import PROGRAM
from dsregress.probe.border.wire import CellRequest, RunRecord
from dsregress.probe.process.cell import OpenGate, execute_cell
from dsregress.probe.program import DEFAULTS
from vgpu.replacing import working_folder


def ran(
    folder: Path,
    device: str,
    ranks: int,
    line: str,
    *,
    run: Path | None = None,
    explain: bool = False,
    found: Path | None = None,
    kept: Path | None = None,
    truths: Path | None = None,
    timeout_s: float = 120.0,
    **parameters: Any,
) -> RunRecord:
    """The record of a program whose files are in ``folder``; ``run`` is the run's own folder. It finds what is in ``found``
    as well, and what it writes is kept in ``kept``, verdicts on its training in ``truths``."""
    run = run or folder.parent / f"run-{device}-{len(os.listdir(folder.parent))}"
    run.mkdir()
    request = CellRequest(
        scenario="program",
        variant="base",
        device=device,
        parameters={**DEFAULTS, "program": line, "world_size": ranks, **parameters},
        framework=PROGRAM,
        warmup_rounds=0,
        rounds=0,
        timeout_s=timeout_s,
        explain=explain,
        program_folder=str(folder),
        found=str(found or ""),
        kept=str(kept or ""),
        truths=str(truths or ""),
    )
    with working_folder(run):
        return execute_cell(request, run, types.SimpleNamespace(extra_info={}), OpenGate())


def passed(record: RunRecord) -> RunRecord:
    assert record.outcome == "passed", f"{record.stage}: {record.signature}\n{record.log_tail}"
    return record
