"""The explanations of a run's ranks: each in a file of its own, and of all of them the one that is kept."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.probe.border.wire import Explanation, Held, Moment, Stretch


def file_name(rank: int) -> str:
    """Of a rank's explanation in the run's folder."""
    return f"explanation-{rank}.json"


def collect(folder: Path, ranks: Iterable[int]) -> None:
    """Leaves ``explanation.json``, of the ranks that left theirs."""
    told = [json.loads(file.read_text()) for rank in ranks if (file := folder / file_name(rank)).exists()]
    if told:
        unfinished = folder / "explanation.unfinished"
        unfinished.write_text(json.dumps(dataclasses.asdict(worst(map(_read, told)))))
        unfinished.rename(folder / "explanation.json")


def _read(content: dict[str, Any]) -> Explanation:
    moments = {
        key: Moment(moment["rank"], moment["nbytes"], [Held(**held) for held in moment["held"]])
        for key, moment in content["moments"].items()
    }
    return Explanation(moments, [Stretch(**stretch) for stretch in content["timeline"]], content["note"])


def worst(explanations: Iterable[Explanation]) -> Explanation:
    """Of all ranks: each moment of the rank that holds most at it, the timeline of the one with the highest peak."""
    told = list(explanations)
    whole = Explanation(note=next((one.note for one in told if one.note), ""))
    for one in told:
        for key, moment in one.moments.items():
            if key not in whole.moments or moment.nbytes > whole.moments[key].nbytes:
                whole.moments[key] = moment
    whole.timeline = max((one.timeline for one in told), key=_highest, default=[])
    return whole


def _highest(timeline: list[Stretch]) -> int:
    return max((nbytes for stretch in timeline for _, nbytes in stretch.points), default=0)
