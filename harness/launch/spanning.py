"""One cell whose ranks span several machines: what each machine measured -> what the cell measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.launch.contract import Ended
from harness.model import Failed, OutOfMemory, Passed, TimedOut
from harness.probe.wire import Explanation, RankRecord, RunRecord

#: Words of a failure that only tells of another rank's, as in `harness.probe.ranks`.
_OF_OTHERS = ("connection", "peer", "gloo", "nccl", "timed out", "killed by the harness", "did not stop")


def together(parts: Sequence[Ended]) -> Ended:
    """The end of a cell from those of its parts, that of rank 0 first."""
    first, worst = parts[0], min(parts, key=_suspicion)
    records = [part.record for part in parts if part.record is not None]
    return Ended(
        outcome=worst.outcome,
        record=_records(records, worst.record) if records else None,
        detail=first.detail,
        explanation=_explanations([part.explanation for part in parts if part.explanation is not None]),
        benchmark=first.benchmark,
        started_at=first.started_at,
        duration_s=max(part.duration_s for part in parts),
        hardware=first.hardware,
        environment=first.environment,
    )


def _suspicion(part: Ended) -> int:
    """The end that is the cause comes first: then what speaks of others, and what passed."""
    match part.outcome:
        case OutOfMemory():
            return 0
        case Failed(signature=signature):
            return 2 if any(word in signature.lower() for word in _OF_OTHERS) else 1
        case TimedOut():
            return 3
        case Passed():
            return 5
        case _:
            return 4


def _records(records: Sequence[RunRecord], worst: RunRecord | None) -> RunRecord:
    told = worst or records[0]
    rounds = [record.round_s for record in records]
    clocks = [record.clocks for record in records if record.clocks]
    ranks: list[RankRecord] = sorted((rank for record in records for rank in record.ranks), key=lambda rank: rank.rank)
    return RunRecord(
        outcome=told.outcome,
        stage=told.stage,
        signature=told.signature,
        log_tail=told.log_tail,
        import_s=max(record.import_s for record in records),
        world_size=records[0].world_size,
        ranks=ranks,
        round_s=[max(one) for one in zip(*rounds, strict=False)],
        clocks=[min(one, key=lambda clock: (not clock.throttled, clock.sm_mhz)) for one in zip(*clocks, strict=False)],
        discarded_rounds=max(record.discarded_rounds for record in records),
    )


def _explanations(told: Sequence[Explanation]) -> Explanation | None:
    """Each moment of the rank that holds most at it; the timeline of the part that holds most at any."""
    if not told:
        return None
    keys = dict.fromkeys(key for one in told for key in one.moments)
    moments = {
        key: max((one.moments[key] for one in told if key in one.moments), key=lambda moment: moment.nbytes)
        for key in keys
    }
    highest = max(told, key=lambda one: max((point[1] for part in one.timeline for point in part.points), default=0))
    return Explanation(moments, highest.timeline, next((one.note for one in told if one.note), ""))
