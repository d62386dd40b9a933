"""Merges the explanations of a run's ranks: each rank writes a file of its own, and one file is kept."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dsregress.probe.border.encoding import encode
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.border.wire import Explanation, Held, Moment, Refusal, Stretch
from vgpu.whole_files import write_whole


def explanation_file(rank: int) -> str:
    """Return the name of a rank's explanation in the run's folder."""
    return f"explanation-{rank}.json"


def merge_explanation_files(folder: Path, ranks: Iterable[int]) -> None:
    """Write ``explanation.json`` from the files of these ranks. Ranks without a sound file are left out; without any,
    nothing is written."""
    found = [
        rank
        for rank in map(_read_rank_explanation, (folder / explanation_file(rank) for rank in ranks))
        if rank is not None
    ]
    if found:
        write_whole(folder / "explanation.json", encode(dataclasses.asdict(merge_explanations(found))))


def merge_explanations(explanations: Iterable[Explanation]) -> Explanation:
    """Merge the explanations: each moment from the rank that holds most at it, the timeline of the rank with the highest
    peak, and the first rank's refusal."""
    ranks = list(explanations)
    merged = Explanation(note=next((rank.note for rank in ranks if rank.note), ""))
    for rank in ranks:
        for key, moment in rank.moments.items():
            if key not in merged.moments or moment.nbytes > merged.moments[key].nbytes:
                merged.moments[key] = moment
    merged.refusal = next((rank.refusal for rank in ranks if rank.refusal is not None), None)
    merged.timeline = max((rank.timeline for rank in ranks), key=_highest, default=[])
    return merged


def _read_rank_explanation(file: Path) -> Explanation | None:
    """Return the explanation in a file; None if it is not one. The rank ran the code under test, so its file may hold
    anything."""
    try:
        content: dict[str, Any] = json.loads(read_regular(file, MOST_FILE_BYTES))
        moments = {
            key: Moment(moment["rank"], moment["nbytes"], [Held(**held) for held in moment["held"]])
            for key, moment in content["moments"].items()
        }
        timeline = [Stretch(**stretch) for stretch in content["timeline"]]
        refusal = Refusal(**content["refusal"]) if content["refusal"] is not None else None
        return Explanation(moments, timeline, content["note"], refusal)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _highest(timeline: list[Stretch]) -> int:
    return max((nbytes for stretch in timeline for _, nbytes in stretch.points), default=0)
