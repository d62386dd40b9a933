"""A stored result answers for a point while it is of the same program in the same release, whatever probe measured it."""

from __future__ import annotations

from typing import Any

import msgspec

from dsregress.model import Cell, Failed, Passed, Result
from tests.accuracy import simulated
from tests.builders.cells import cell, result_of

PARAMETERS = {"program": "train.py", "world_size": 4, "gpu": "A100-80G", "warmup_steps": 0, "sources_sha256": "s"}


def of(version: str = "0.15.1", **changes: Any) -> Cell:
    return msgspec.structs.replace(cell(version, "sim"), parameters={**PARAMETERS, **changes})


def result(cell: Cell, started_at: str = "2026-01-01T00:00:00Z", outcome: Any = None) -> Result:
    return msgspec.structs.replace(result_of(cell, None, outcome or Passed()), started_at=started_at)


def test_the_newest_that_passed_answers() -> None:
    old, new = result(of()), result(of(), "2026-01-02T00:00:00Z")
    failed = result(of(), "2026-01-03T00:00:00Z", Failed(stage="init", signature="x"))
    assert simulated._newest(of(), [old, new, failed]) is new


def test_a_parameter_that_programs_have_by_now_changes_nothing() -> None:
    stored = result(of())
    assert simulated._newest(of(added_later=True), [stored]) is stored


def test_another_release_a_changed_program_or_another_card_do_not_answer() -> None:
    others = [of("0.15.2"), of(sources_sha256="t"), of(gpu="H100-80G"), of(world_size=8), of(program="train.py --x")]
    assert simulated._newest(of(), [result(other) for other in others]) is None
