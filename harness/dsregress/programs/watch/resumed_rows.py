"""The data with which a program goes on from another run's files, against those that this run fed next: it was ended
somewhat later than it saved.

Standard library only: called where the ranks of a run have ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from dsregress.probe.border.encoding import encode
from dsregress.probe.border.wire import FedBatch, RankRecord, ResumedData

#: After the name of the folder in which a run's files are kept.
_SUFFIX = ".fed.json"


def keep_fed_data(ranks: Iterable[RankRecord], kept: str) -> None:
    """Keep what the ranks of a run were fed, beside its ``kept`` files. Raise OSError."""
    by_rank = {rank.rank: {"saved": rank.saved_step, "steps": _by_step(rank.fed)} for rank in ranks}
    Path(kept + _SUFFIX).write_text(encode(by_rank), encoding="utf-8")


def note_resumed_data(ranks: Iterable[RankRecord], found: str) -> None:
    """Set what each rank, of a run that goes on from the files in ``found``, has gone on with. Nothing is known without
    values, or of a run that ended as it saved."""
    try:
        kept = json.loads(Path(found + _SUFFIX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    for rank in ranks:
        written = kept.get(str(rank.rank))
        first = _by_step(rank.fed).get("1")
        if written is not None and first is not None:
            rank.resumed = _resumed_data(written["saved"], written["steps"], first)


def _resumed_data(saved: int, steps: dict[str, object], first: object) -> ResumedData | None:
    due = saved + 1
    if not saved or str(due) not in steps:
        return None
    alike = [int(step) for step, data in steps.items() if data == first]
    return ResumedData(step=due if due in alike else min(alike, default=0), due=due)


def _by_step(fed: Sequence[FedBatch]) -> dict[str, object]:
    """Return the data of the first micro-batch of each step: its ids or, without any, what else is known of its values."""
    found: dict[str, object] = {}
    for batch in fed:
        ids = [row.ids for row in batch.first_rows]
        data: object = ids if all(ids) else []
        if data or batch.values:
            found.setdefault(str(batch.step), data or batch.values)
    return found
