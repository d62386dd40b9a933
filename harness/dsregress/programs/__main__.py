"""Runs a program as one cell in the environment of this Python: for work on the probe itself.

cd PROJECT; python -m dsregress.programs sim 8 'train.py --model qwen' [tiny=true] [rank=3]
cd PROJECT; python -m dsregress.programs cpu 2 'torchrun train.py'
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import types
from pathlib import Path

from dsregress.probe.adapters import PROGRAM
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.probe.border.wire import CellRequest, RunRecord
from dsregress.probe.process.cell import OpenGate, execute_cell
from dsregress.probe.program import DEFAULTS
from dsregress.programs import program_adapter
from vgpu.replacing import working_folder


def main(device: str, ranks: str, line: str, *changes: str) -> int:
    """Run a launch line on ``ranks`` ranks of ``device`` and print the readings of all ranks. ``changes`` are parameters,
    NAME=JSON. Return 0 if the cell passed, else 1."""
    given = {name: json.loads(value) for name, _, value in (change.partition("=") for change in changes)}
    parameters = {**DEFAULTS, "program": line, "world_size": int(ranks), **given}
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
