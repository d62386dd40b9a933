"""What a comparison keeps of each result: little, so that 100,000 of them fit in memory while they stream by.

The exact values of a run are packed into bytes: most releases measure the same on most workloads, and whether two runs
do is then one comparison of bytes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from harness.compare.brief import Brief, brief
from harness.compare.metrics import DEVICE_EXCESS, DEVICE_RETAINED, ERRORS, IMPORT_TIME, INIT_TIME, STEP_TIME
from harness.compare.readings import Exact, Excess, exact_values, excesses, worst_values
from harness.model import Result
from harness.probe.border.wire import NO_NUMBER, Numerics

_NOTHING: dict[str, str] = {}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Exact).decode


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One result without its bulk."""

    result: Result  #: without its record, and the list of what was installed
    packed: bytes = b""  #: the exact values; empty where nothing was recorded
    recorded: bool = False
    world_size: int = 0
    round_s: tuple[float, ...] = ()
    init_s: float | None = None
    import_s: float = 0.0
    digest: str = ""  #: of the trained parameters
    errors: tuple[tuple[str, float], ...] = ()  #: the oracle's distances, of the worst rank
    suspects: tuple[tuple[int, Numerics], ...] = ()  #: by rank, where a distance is above 1 or a loss is no number
    state_bytes: int = 0  #: of the optimizer, on the device, by the ideal; for the model of step time
    excesses: tuple[Excess, ...] = ()  #: of what is held over what ZeRO needs, by phase

    def exact(self) -> Exact:
        """The exact values, unpacked."""
        return _decode(self.packed) if self.packed else []

    def flat(self) -> dict[str, float]:
        """Every metric under its flat name: ``backward.device_peak_bytes``, ``step_time_s``, ..."""
        return {**self.worst(), **self.noisy()}

    def worst(self) -> dict[str, float]:
        """The exact ones of them, of the worst rank: the same where ``packed`` is the same."""
        return worst_values(self.exact())

    def noisy(self) -> dict[str, float]:
        """The others."""
        if not self.recorded:
            return {}
        values = {STEP_TIME.name: statistics.median(self.round_s)} if self.round_s else {}
        if self.init_s is not None:
            values[INIT_TIME.name] = self.init_s
        values |= {DEVICE_EXCESS.flat_name(found.phase): found.size for found in self.excesses}
        return {**values, IMPORT_TIME.name: self.import_s, **dict(self.errors)}


#: What is kept of a result, and what was installed, which is kept once for each stack.
Taken = tuple[Measured, dict[str, str]]


def measured(result: Result) -> Measured:
    """What a comparison keeps of a result."""
    slim = msgspec.structs.replace(result, record=None, installed=_NOTHING)
    return measured_by(slim, brief(result.record) if result.record is not None else None)


def measured_by(result: Result, record: Brief | None) -> Measured:
    """What a comparison keeps of a result that comes without its record, and of that."""
    if record is None:
        return Measured(result=result)
    errors: dict[str, float] = {}
    suspects, digest = [], ""
    for rank in record.ranks:
        numbers = rank.numerics
        if numbers is None:
            continue
        digest = digest or numbers.parameter_digest
        measured = distances(numbers)
        for name, distance in measured:
            size = distance if distance < NO_NUMBER else math.inf
            errors[name] = max(size, errors.get(name, 0.0))
        if suspicious(numbers, measured):
            suspects.append((rank.rank, numbers))
    return Measured(
        result=result,
        packed=_encode(exact_values(record)),
        recorded=True,
        world_size=record.world_size,
        round_s=tuple(record.round_s),
        init_s=max((rank.init_s for rank in record.ranks), default=None),
        import_s=record.import_s,
        digest=digest,
        errors=tuple(errors.items()),
        suspects=tuple(suspects),
        state_bytes=state_bytes(record) if result.cell.device == "sim" else 0,
        excesses=excesses(record),
    )


def state_bytes(record: Brief) -> int:
    """What the optimizer keeps on the device of the first rank, by the ideal: a step reads and writes it once."""
    ideal = record.ranks[0].ideal.get(DEVICE_RETAINED.flat_name("step"), {}) if record.ranks else {}
    return ideal.get("master", 0) + ideal.get("optimizer", 0)


def distances(numbers: Numerics) -> list[tuple[str, float]]:
    """The oracle's distances that were measured, by the metric's name."""
    return [(metric.name, distance) for metric in ERRORS if (distance := getattr(numbers, metric.name)) is not None]


def suspicious(numbers: Numerics, measured: Sequence[tuple[str, float]]) -> bool:
    """Whether the oracle has to look closer. ``measured`` are its `distances`."""
    for _, distance in measured:
        if not distance <= 1:
            return True
    return None in numbers.losses or not math.isfinite(sum(numbers.losses))  # type: ignore[arg-type]
