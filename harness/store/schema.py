"""One result as bytes, and back: the schema of the files under ``results/``.

History of the schema
    1  2026-11  First. The file is `harness.model.Result` on one line; the parts of its detail
                (`harness.probe.border.wire.Detail`) are in files of their own, named by the hashes in ``detail_sha256``
                (see `harness.store.details`). Optional, and absent from older files: ``image``, and the ``shape`` of
                the model in a cell's ``parameters``. A rank with an empty ``ideal`` has the first rank's; older files
                repeat it.

To change it: raise `SCHEMA`, write down here what changed, and keep a loader for the old one in `taker`. A file is
never rewritten to a newer schema: it is what was measured.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from harness.model import Cell, Environment, Hardware, Outcome, Result, Stack
from harness.probe.border.wire import Detail, RunRecord

_T = TypeVar("_T")
_R = TypeVar("_R")

SCHEMA = 1

_GIB = 1 << 30

_encoder = msgspec.json.Encoder(order="deterministic")
_NO_DETAIL = msgspec.Raw(b"{}")


class NotAResult(Exception):
    """Why a file is not one that this version can read, in a few words."""


class Parts(msgspec.Struct, Generic[_R], frozen=True, gc=False):
    """A stored result, and apart from it what is large, and what not every reader needs whole."""

    result: Result  #: without its record, and the list of what was installed
    installed: dict[str, str]
    record: _R | None


#: Takes a file apart. Raises NotAResult.
Take = Callable[[bytes], Parts[_R]]


class _Head(msgspec.Struct):
    schema: int


class _Cell1(msgspec.Struct, kw_only=True, gc=False):
    stack: msgspec.Raw
    scenario: str
    scenario_version: int
    variant: str
    device: str
    framework: str
    parameters: msgspec.Raw


class _Result1(msgspec.Struct, Generic[_R], kw_only=True, gc=False):
    """Schema 1 with the parts that thousands of results share left raw, to be decoded once and shared."""

    schema: int
    cell: _Cell1
    lock_sha256: str
    code_sha256: str
    probe_sha256: str
    installed: msgspec.Raw
    hardware: msgspec.Raw
    session: str
    started_at: str
    duration_s: float
    outcome: Outcome
    record: _R | None = None
    detail_sha256: msgspec.Raw = _NO_DETAIL
    image: str = ""


_head = msgspec.json.Decoder(_Head)
_detail = msgspec.json.Decoder(Detail)


def encode(result: Result) -> bytes:
    """The whole file."""
    record = result.record
    if record is not None and len(record.ranks) > 1:
        first, *others = record.ranks
        once = [dataclasses.replace(rank, ideal={}) if rank.ideal == first.ideal else rank for rank in others]
        result = msgspec.structs.replace(result, record=dataclasses.replace(record, ranks=[first, *once]))
    return _encoder.encode(result) + b"\n"


def decode(data: bytes) -> Result:
    """The result in ``data``. Raises NotAResult."""
    parts = _whole(data)
    return msgspec.structs.replace(parts.result, installed=parts.installed, record=parts.record)


def taker(record: type[_R]) -> Take[_R]:
    """Takes files apart, with the JSON of a `harness.probe.border.wire.RunRecord` read as ``record``, which need not
    have all of its fields, but ranks with their ``ideal``."""
    loaders: dict[int, Take[_R]] = {1: _loader_1(record)}
    newest = loaders[SCHEMA]
    start = f'{{"schema":{SCHEMA},'.encode()  # what nearly every file starts with

    def take(data: bytes) -> Parts[_R]:
        try:
            if data.startswith(start):
                return newest(data)
            schema = _head.decode(data).schema
        except msgspec.DecodeError as error:
            raise NotAResult(f"not a result, or damaged: {error}") from None
        if schema > SCHEMA:
            raise NotAResult(
                f"written by a newer version (schema {schema}, this one reads up to {SCHEMA}): update dsregress"
            )
        if schema not in loaders:
            raise NotAResult(f"not a result: there never was a schema {schema}")
        try:
            return loaders[schema](data)
        except msgspec.DecodeError as error:
            raise NotAResult(f"damaged: {error}") from None

    return take


def encode_parts(detail: Detail) -> dict[str, bytes]:
    """Part of a detail -> its bytes, which are the same for equal parts."""
    return {field.name: _encoder.encode(getattr(detail, field.name)) for field in dataclasses.fields(Detail)}


def decode_parts(parts: Mapping[str, bytes]) -> Detail:
    """The reverse of `encode_parts`. Raises NotAResult."""
    try:
        fields = (b'"%b":%b' % (name.encode(), part) for name, part in parts.items())
        return _detail.decode(b"{" + b",".join(fields) + b"}")
    except msgspec.DecodeError as error:
        raise NotAResult(f"damaged: {error}") from None


def detail_hashes(detail: Detail) -> dict[str, str]:
    """Part of the detail -> hash, for `Result.detail_sha256`."""
    return {name: hashlib.sha256(part).hexdigest() for name, part in sorted(encode_parts(detail).items())}


def content_key(
    cell: Cell, *, lock_sha256: str, code_sha256: str, probe_sha256: str, hardware: Hardware, image: str = ""
) -> str:
    """What a result depends on, as a hash: two runs of one key measure the same thing.

    Memory counts in whole GiB, because kernels of the same machine differ in what they keep for themselves.
    """
    parts: Mapping[str, Any] = {
        "schema": SCHEMA,
        "cell": cell.id,
        "scenario_version": cell.scenario_version,
        "framework": cell.framework,
        "parameters": cell.parameters,
        "lock": lock_sha256,
        "code": code_sha256,
        "probe": probe_sha256,
        "hardware": [
            hardware.cpu,
            hardware.cores,
            round(hardware.memory_bytes / _GIB),
            hardware.gpus,
            hardware.gpu_driver,
        ],
    }
    if image:  # absent from the keys of all that ran in none
        parts = {**parts, "image": image}
    return hashlib.sha256(_encoder.encode(parts)).hexdigest()


def key_in(environment: Environment, cell: Cell, *, probe_sha256: str, hardware: Hardware) -> str:
    """The content key of a cell's runs in an environment."""
    return content_key(
        cell,
        lock_sha256=environment.lock_sha256,
        code_sha256=environment.code_sha256,
        probe_sha256=probe_sha256,
        hardware=hardware,
        image=environment.image,
    )


def key_of(result: Result) -> str:
    """The content key of a stored result."""
    return content_key(
        result.cell,
        lock_sha256=result.lock_sha256,
        code_sha256=result.code_sha256,
        probe_sha256=result.probe_sha256,
        hardware=result.hardware,
        image=result.image,
    )


def _loader_1(record: type[_R]) -> Take[_R]:
    decode: Callable[[bytes], _Result1[Any]] = msgspec.json.Decoder(_Result1[record]).decode  # type: ignore[valid-type]

    def load(data: bytes) -> Parts[_R]:
        raw = decode(data)
        cell = raw.cell
        ranks: list[Any] = raw.record.ranks if raw.record is not None else []
        for rank in ranks:
            rank.ideal = rank.ideal or ranks[0].ideal
        result = Result(
            schema=raw.schema,
            cell=Cell(
                stack=_stacks(cell.stack),
                scenario=cell.scenario,
                scenario_version=cell.scenario_version,
                variant=cell.variant,
                device=cell.device,
                framework=cell.framework,
                parameters=_parameters(cell.parameters),
            ),
            lock_sha256=raw.lock_sha256,
            code_sha256=raw.code_sha256,
            probe_sha256=raw.probe_sha256,
            installed=_NOTHING,
            hardware=_hardware(raw.hardware),
            session=raw.session,
            started_at=raw.started_at,
            duration_s=raw.duration_s,
            outcome=raw.outcome,
            detail_sha256=_names(raw.detail_sha256),
            image=raw.image,
        )
        return Parts(result, _names(raw.installed), raw.record)

    return load


_NOTHING: dict[str, str] = {}


def _shared(kind: type[_T]) -> Callable[[msgspec.Raw], _T]:
    """Decodes to one object for equal bytes: hundreds of results repeat their stack, and what is installed in it."""
    decode = msgspec.json.Decoder(kind).decode
    known: dict[bytes, _T] = {}

    def shared(raw: msgspec.Raw) -> _T:
        key = bytes(raw)
        value = known.get(key)
        if value is None:
            value = known[key] = decode(key)
        return value

    return shared


_stacks = _shared(Stack)
_hardware = _shared(Hardware)
_names = _shared(dict[str, str])
_parameters = _shared(dict[str, Any])

_whole = taker(RunRecord)
