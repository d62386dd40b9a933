"""Runs a program as one cell in the environment of this Python: for work on the probe itself.

cd PROJECT; python -m dsregress.programs sim 8 'train.py --model qwen' [gpu=A100-80G] [steps=2] [tiny=true] [rank=3]
cd PROJECT; python -m dsregress.programs cpu 2 'torchrun train.py'
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsregress.probe.adapters import PROGRAM
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.probe.border.wire import CellRequest, RunRecord
from dsregress.probe.process.cell import OpenGate, execute_cell
from dsregress.probe.program import DEFAULTS, INFERENCE
from dsregress.programs import program_adapter
from vgpu import card_catalogue
from vgpu.device.card import VirtualCard
from vgpu.replacing import working_folder


def main(device: str, ranks: str, line: str, *changes: str) -> int:
    """Run a launch line on ``ranks`` ranks of ``device`` and print the readings of all ranks. ``changes`` are those of
    `given_parameters`. Return 0 if the cell passed, 1 if not, 2 if a change is none."""
    try:
        parameters = {**DEFAULTS, "program": line, "world_size": int(ranks), **given_parameters(line, changes)}
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    program_adapter.preload(device)
    request = CellRequest(
        scenario="program",
        variant="base",
        device=device,
        parameters=parameters,
        framework=PROGRAM,
        warmup_rounds=0,
        rounds=0,
        timeout_s=600.0,
        program_folder=os.getcwd(),
    )
    with tempfile.TemporaryDirectory() as name, working_folder(name):
        record = execute_cell(request, Path(name), types.SimpleNamespace(extra_info={}), OpenGate())
        log = "".join(file.read_text(errors="replace") for file in sorted(Path(name).glob("rank-*.log")))
    sys.stdout.write(log[-4000:] + "\n" + _record_table(record))
    return 0 if record.outcome == "passed" else 1


def given_parameters(line: str, changes: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that changes, as ``NAME=VALUE``, mean: those of every program, those of the line's ``{NAME}``,
    and ``steps``, the optimizer steps before the measured one, as the option of that name. A ``gpu`` brings its card's
    facts. A value is JSON, or else text. Raise ValueError for a name or a card that there is not."""
    given: dict[str, Any] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in (*DEFAULTS, INFERENCE, "steps") and "{" + name + "}" not in line:
            raise ValueError(f"a program has no {name!r} (known: steps, {', '.join((*DEFAULTS, INFERENCE))})")
        try:
            given[name] = json.loads(value)
        except ValueError:
            given[name] = value
    if "steps" in given:
        given["warmup_steps"] = given.pop("steps")
    if "gpu" in given:
        card = VirtualCard.of(card_catalogue.named_card(given["gpu"]))
        given["card"] = {**dataclasses.asdict(card), **given.get("card", {})}
    return given


def _record_table(record: RunRecord) -> str:
    lines = [f"{record.outcome} {record.stage} {record.signature}".strip(), *record.log_tail.splitlines()[-60:]]
    for rank in record.ranks:
        for phase, reading in rank.phases.items():
            lines.append(
                f"rank {rank.rank} {phase:8} peak {reading.device_peak_bytes:>15,} held {reading.device_retained_bytes:>15,}"
                f" host {reading.host_peak_bytes:>15,} reserved {reading.reserved_peak_bytes or 0:>15,}"
                f" to {reading.late_reserved_peak_bytes or 0:,}"
                f" launches {reading.op_launches:>7,} collectives {reading.collectives}"
            )
        lines += [f"rank {rank.rank} note: {note}" for note in rank.notes]
        for read in rank.readings:
            lines.append(
                f"rank {rank.rank} step {read.step} allocated {read.allocated_bytes:>15,} peak"
                f" {read.allocated_peak_bytes:>15,} reserved {read.reserved_bytes:>15,} to"
                f" {read.late_reserved_bytes or 0:,} at {read.at}"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
