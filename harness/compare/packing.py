"""Cells as bytes, for another process: what many of them share is there once, and each is decoded when it is asked for.

Of a workload's results over 60 releases, all share their parameters and most their exact values, and those of one
release share its pins and hashes: written out for each of 100,000 cells that is most of a third of a GiB.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar, overload

import msgspec

from harness.compare.readings import Excess
from harness.compare.summary import Measured
from harness.model import Cell, Hardware, Outcome, Result, Stack
from harness.probe.border.wire import Numerics

_T = TypeVar("_T")


class Packed(Sequence[_T]):
    """Values that are decoded when they are asked for: of most, nobody asks."""

    def __init__(self, raw: Sequence[msgspec.Raw], decode: Callable[[msgspec.Raw], _T]) -> None:
        self._raw = raw
        self._decode = decode

    def __len__(self) -> int:
        return len(self._raw)

    @overload
    def __getitem__(self, at: int) -> _T: ...
    @overload
    def __getitem__(self, at: slice) -> Packed[_T]: ...
    def __getitem__(self, at: int | slice) -> _T | Packed[_T]:
        return self._decode(self._raw[at]) if isinstance(at, int) else Packed(self._raw[at], self._decode)


class _Workload(msgspec.Struct, array_like=True):
    """Of a `Cell`, what it does not share with the others of its stack."""

    scenario: str
    scenario_version: int
    variant: str
    device: str
    framework: str
    parameters: dict[str, Any]


class _Run(msgspec.Struct, array_like=True):
    """Of a `Result`, what those of one stack and session share."""

    schema: int
    stack: Stack
    lock_sha256: str
    code_sha256: str
    probe_sha256: str
    installed: dict[str, str]
    hardware: Hardware
    session: str
    detail_sha256: dict[str, str]
    image: str


class _Cell(msgspec.Struct, array_like=True, gc=False):
    """A `Measured` with places in the tables for what it shares."""

    run: int
    workload: int
    exact: int
    started_at: str
    duration_s: float
    outcome: Outcome
    recorded: bool
    world_size: int
    round_s: tuple[float, ...]
    init_s: float | None
    import_s: float
    digest: str
    errors: tuple[tuple[str, float], ...]
    suspects: tuple[tuple[int, Numerics], ...]
    state_bytes: int
    excesses: tuple[Excess, ...]


class _Tables(msgspec.Struct, array_like=True):
    runs: list[_Run]
    workloads: list[_Workload]
    exact: list[bytes]
    cells: list[msgspec.Raw]


class _Table(Generic[_T]):
    """Values, each once."""

    def __init__(self) -> None:
        self.values: list[_T] = []
        self._places: dict[Hashable, int] = {}

    def place(self, key: Hashable, make: Callable[[], _T]) -> int:
        """Where the value with this key is; it is made where there is none yet."""
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.values)
            self.values.append(make())
        return place


_encode = msgspec.msgpack.Encoder().encode
_cell = msgspec.msgpack.Decoder(_Cell).decode
_tables = msgspec.msgpack.Decoder(_Tables).decode


def pack(cells: Sequence[Measured]) -> msgspec.Raw:
    """Cells for `unpack`."""
    runs: _Table[_Run] = _Table()
    workloads: _Table[_Workload] = _Table()
    exact: _Table[bytes] = _Table()
    packed = [_packed(one, runs, workloads, exact) for one in cells]
    return msgspec.Raw(_encode((runs.values, workloads.values, exact.values, packed)))


def _packed(one: Measured, runs: _Table[_Run], workloads: _Table[_Workload], exact: _Table[bytes]) -> _Cell:
    result = one.result
    cell = result.cell
    # Values that are equal but not the same object only cost another row; all of them live until the tables are done.
    run = runs.place(
        (
            id(cell.stack),
            id(result.hardware),
            id(result.detail_sha256),
            id(result.installed),
            result.session,
            result.lock_sha256,
            result.code_sha256,
            result.probe_sha256,
            result.image,
            result.schema,
        ),
        lambda: _Run(
            schema=result.schema,
            stack=cell.stack,
            lock_sha256=result.lock_sha256,
            code_sha256=result.code_sha256,
            probe_sha256=result.probe_sha256,
            installed=result.installed,
            hardware=result.hardware,
            session=result.session,
            detail_sha256=result.detail_sha256,
            image=result.image,
        ),
    )
    workload = workloads.place(
        (id(cell.parameters), cell.scenario, cell.scenario_version, cell.variant, cell.device, cell.framework),
        lambda: _Workload(
            cell.scenario, cell.scenario_version, cell.variant, cell.device, cell.framework, cell.parameters
        ),
    )
    return _Cell(
        run,
        workload,
        exact.place(one.packed, lambda: one.packed),
        result.started_at,
        result.duration_s,
        result.outcome,
        one.recorded,
        one.world_size,
        one.round_s,
        one.init_s,
        one.import_s,
        one.digest,
        one.errors,
        one.suspects,
        one.state_bytes,
        one.excesses,
    )


def unpack(data: msgspec.Raw) -> Packed[Measured]:
    """The reverse of `pack`: the cells, which share what they shared."""
    tables = _tables(data)

    def decode(raw: msgspec.Raw) -> Measured:
        one = _cell(raw)
        run, workload = tables.runs[one.run], tables.workloads[one.workload]
        result = Result(
            schema=run.schema,
            cell=Cell(
                stack=run.stack,
                scenario=workload.scenario,
                scenario_version=workload.scenario_version,
                variant=workload.variant,
                device=workload.device,
                framework=workload.framework,
                parameters=workload.parameters,
            ),
            lock_sha256=run.lock_sha256,
            code_sha256=run.code_sha256,
            probe_sha256=run.probe_sha256,
            installed=run.installed,
            hardware=run.hardware,
            session=run.session,
            started_at=one.started_at,
            duration_s=one.duration_s,
            outcome=one.outcome,
            detail_sha256=run.detail_sha256,
            image=run.image,
        )
        return Measured(
            result=result,
            packed=tables.exact[one.exact],
            recorded=one.recorded,
            world_size=one.world_size,
            round_s=one.round_s,
            init_s=one.init_s,
            import_s=one.import_s,
            digest=one.digest,
            errors=one.errors,
            suspects=one.suspects,
            state_bytes=one.state_bytes,
            excesses=one.excesses,
        )

    return Packed(tables.cells, decode)
