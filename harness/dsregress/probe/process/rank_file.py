"""One rank's result for its cell: ``rank-N.json`` in the run's folder."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dsregress.probe.border.encoding import encode
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.border.wire import NO_NUMBER, Detail, FedBatch, FedRow, Numerics, RankRecord, SavedTensors
from vgpu.figures import MemoryReading, PhaseReading
from vgpu.whole_files import write_whole


def rank_file(folder: Path, rank: int) -> Path:
    """Return the path of a rank's file in the run's folder."""
    return folder / f"rank-{rank}.json"


def write_record(folder: Path, record: RankRecord, detail: Detail | None) -> None:
    """Write the file atomically. ``detail`` is that of rank 0, None for the others."""
    content = {"record": asdict(record), "detail": asdict(detail) if detail else None}
    write_whole(rank_file(folder, record.rank), encode(content))


class Unreadable(Exception):
    """The file is missing or was not written by a rank of ours: the measured code can write there as well."""


def read_record(path: Path) -> tuple[RankRecord, Detail | None]:
    """Return what `write_record` wrote. Raise Unreadable if the file is missing or not such a record."""
    try:
        content = json.loads(read_regular(path, MOST_FILE_BYTES))
        record = content["record"]
        record["phases"] = {name: PhaseReading(**reading) for name, reading in record["phases"].items()}
        record["numerics"] = Numerics(**record["numerics"]) if record["numerics"] else None
        record["models"] = {name: Numerics(**numerics) for name, numerics in record["models"].items()}
        record["readings"] = [MemoryReading(**reading) for reading in record["readings"]]
        record["saved"] = [SavedTensors(**saved) for saved in record["saved"]]
        record["saved_last"] = [SavedTensors(**saved) for saved in record["saved_last"]]
        record["fed"] = [_fed_batch(fed) for fed in record["fed"]]
        return RankRecord(**record), Detail(**content["detail"]) if content["detail"] else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def _fed_batch(fed: dict[str, Any]) -> FedBatch:
    return FedBatch(**{**fed, "first_rows": [FedRow(**row) for row in fed["first_rows"]]})


def representable(numerics: Numerics) -> Numerics:
    """Return the same object without the infinities and NaNs that JSON cannot express: None in the lists, `NO_NUMBER` as
    an error. Losses end where a step has none, as on the first stage of a pipeline: that is not a NaN."""
    losses = itertools.takewhile(lambda loss: loss is not None, numerics.losses)
    numerics.losses = [loss if math.isfinite(loss) else None for loss in losses if loss is not None]
    numerics.gradient_norms = [
        norm if norm is not None and math.isfinite(norm) else None for norm in numerics.gradient_norms
    ]
    for name in ("loss_error", "gradient_norm_error", "parameter_error"):
        error = getattr(numerics, name)
        if error is not None and not error < NO_NUMBER:
            setattr(numerics, name, NO_NUMBER)
    return numerics
