"""Explanations of the results of `tests.builders.comparisons`: which sites hold the memory."""

from __future__ import annotations

from dsregress.model import Result
from dsregress.probe.border.wire import REGULAR_PHASES, Explanation, Held, Moment, Stretch

SITE = "deepspeed/runtime/zero/partition_parameters.py:1254 in gather"

CALLER = "deepspeed/runtime/zero/parameter_offload.py:353 in before"

KEY = "backward.device_retained_bytes"


def explanation(gathered: int, *, site: str = SITE) -> Explanation:
    rows = [
        Held(gathered, 2, "gathered parameters", "model.layers.*", site, [CALLER], "backward"),
        Held(2048, 1, "gradients", "", "stage3.py:547 in setup", [], "init"),
    ]
    moment = Moment(0, gathered + 2048, [row for row in rows if row.nbytes])
    points = [[0, 100], [500, gathered + 4096], [1000, gathered + 2048]]
    return Explanation({KEY: moment}, [Stretch(phase, points) for phase in REGULAR_PHASES[1:]])


def explained_as_measured(of: Result) -> Explanation | None:
    """Of the baseline, and of two releases that hold more."""
    gathered = {"0.15.0": 1 << 20, "0.16.0": 4 << 20, "0.16.4": 4 << 20}
    version = of.cell.stack.versions["deepspeed"]
    return explanation(gathered[version]) if version in gathered else None
