"""One cell whose ranks span several machines: merges the measurements of its parts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple

from dsregress.launch.contract import Ended
from dsregress.model import Failed, MachineFault, OutOfMemory, Passed, TimedOut
from dsregress.probe.border.faults import blames_another_rank
from dsregress.probe.border.merging import merge_explanations
from dsregress.probe.border.wire import RankRecord, RoundCost, RunRecord


def merge_parts(parts: Sequence[Ended]) -> Ended:
    """Merge the ends of a cell's parts, that of rank 0 first, into the end of the cell."""
    first, cause = parts[0], min(parts, key=_blame_order)
    records = [part.record for part in parts if part.record is not None]
    explanations = [part.explanation for part in parts if part.explanation is not None]
    return Ended(
        outcome=cause.outcome,
        record=_records(records, cause.record) if records else None,
        detail=first.detail,
        explanation=merge_explanations(explanations) if explanations else None,
        benchmark=first.benchmark,
        started_at=first.started_at,
        duration_s=max(part.duration_s for part in parts),
        hardware=first.hardware,
        environment=first.environment,
        left=sum((Counter(part.left) for part in parts), Counter()),
    )


def _blame_order(part: Ended) -> int:
    """Return the sort key of an end: the cause first, then errors about other ranks, then passes."""
    match part.outcome:
        case OutOfMemory() | MachineFault():
            return 0
        case Failed(signature=signature):
            return 2 if blames_another_rank(signature) else 1
        case TimedOut():
            return 3
        case Passed():
            return 5
        case _:
            return 4


def _records(records: Sequence[RunRecord], cause: RunRecord | None) -> RunRecord:
    blamed = cause or records[0]
    rounds = [record.round_s for record in records]
    clocks = [record.clocks for record in records if record.clocks]
    costs = [record.costs for record in records]
    ranks: list[RankRecord] = sorted((rank for record in records for rank in record.ranks), key=lambda rank: rank.rank)
    return RunRecord(
        outcome=blamed.outcome,
        stage=blamed.stage,
        signature=blamed.signature,
        machine_fault=blamed.machine_fault,
        log_tail=blamed.log_tail,
        whereabouts=[line for record in records for line in record.whereabouts],
        import_s=max(record.import_s for record in records),
        world_size=records[0].world_size,
        ranks=ranks,
        round_s=[max(times) for times in zip(*rounds, strict=False)],
        costs=[
            RoundCost(*(sum(figures) for figures in zip(*map(astuple, row), strict=True)))
            for row in zip(*costs, strict=False)
        ],
        clocks=[min(row, key=lambda clock: (not clock.throttled, clock.sm_mhz)) for row in zip(*clocks, strict=False)],
        discarded_rounds=max(record.discarded_rounds for record in records),
    )
