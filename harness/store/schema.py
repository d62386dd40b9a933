"""One result as bytes, and back: the schema of the files under ``results/``.

History of the schema
    1  2026-11  First. Line one is `harness.model.Result`, line two its ``detail`` (`harness.probe.wire.Detail`).

To change it: raise `SCHEMA`, write down here what changed, and keep a loader for the old one in `_LOADERS`. A file is
never rewritten to a newer schema: it is what was measured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from harness.model import Cell, Hardware, Outcome, Result
from harness.probe.wire import Detail, RunRecord

SCHEMA = 1

#: Where the detail starts. A line of its own, so that who wants figures only need not read it: it is most of the file.
_DETAIL = b',\n"detail":'

_GIB = 1 << 30

_encoder = msgspec.json.Encoder(order="deterministic")
_memo: dict[bytes, Any] = {}


class NotAResult(Exception):
    """Why a file is not one that this version can read, in a few words."""


class _Head(msgspec.Struct):
    schema: int


class _Result1(msgspec.Struct, kw_only=True, gc=False):
    """Schema 1 with the parts that thousands of results share left raw, to be decoded once and shared."""

    schema: int
    cell: msgspec.Raw
    lock_sha256: str
    code_sha256: str
    probe_sha256: str
    installed: msgspec.Raw
    hardware: msgspec.Raw
    session: str
    started_at: str
    duration_s: float
    outcome: Outcome
    record: RunRecord | None = None
    detail_sha256: dict[str, str] = {}


class _DetailOnly(msgspec.Struct):
    detail: Detail


_head = msgspec.json.Decoder(_Head)
_result_1 = msgspec.json.Decoder(_Result1)
_cell = msgspec.json.Decoder(Cell)
_hardware = msgspec.json.Decoder(Hardware)
_installed = msgspec.json.Decoder(dict[str, str])
_detail_only = msgspec.json.Decoder(_DetailOnly)


def encode(result: Result, detail: Detail | None) -> bytes:
    """The whole file."""
    return _encoder.encode(result)[:-1] + _DETAIL + _encoder.encode(detail or Detail()) + b"}\n"


def decode(data: bytes) -> Result:
    """The result in ``data``, which may be cut off anywhere in its detail. Raises NotAResult."""
    end = data.find(_DETAIL)
    light = data if end < 0 else data[:end] + b"}"
    try:
        if light.startswith(b'{"schema":1,'):  # what nearly every file starts with
            return _load_1(light)
        schema = _head.decode(light).schema
    except msgspec.DecodeError as error:
        raise NotAResult(f"not a result, or damaged: {error}") from None
    if schema > SCHEMA:
        raise NotAResult(
            f"written by a newer version (schema {schema}, this one reads up to {SCHEMA}): update dsregress"
        )
    if schema not in _LOADERS:
        raise NotAResult(f"not a result: there never was a schema {schema}")
    try:
        return _LOADERS[schema](light)
    except msgspec.DecodeError as error:
        raise NotAResult(f"damaged: {error}") from None


def has_whole_head(data: bytes) -> bool:
    """Whether ``data``, the start of a file, holds all that `decode` needs."""
    return _DETAIL in data


def decode_detail(data: bytes) -> Detail:
    """The detail in a whole file. Raises NotAResult."""
    try:
        return _detail_only.decode(data).detail
    except msgspec.DecodeError as error:
        raise NotAResult(f"damaged: {error}") from None


def detail_hashes(detail: Detail) -> dict[str, str]:
    """Part of the detail -> hash, for `Result.detail_sha256`."""
    return {
        part: hashlib.sha256(_encoder.encode(getattr(detail, part))).hexdigest()
        for part in ("configuration", "host_functions", "warnings")
    }


def content_key(cell: Cell, *, lock_sha256: str, code_sha256: str, probe_sha256: str, hardware: Hardware) -> str:
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
    return hashlib.sha256(_encoder.encode(parts)).hexdigest()


def key_of(result: Result) -> str:
    """The content key of a stored result."""
    return content_key(
        result.cell,
        lock_sha256=result.lock_sha256,
        code_sha256=result.code_sha256,
        probe_sha256=result.probe_sha256,
        hardware=result.hardware,
    )


def _load_1(light: bytes) -> Result:
    raw = _result_1.decode(light)
    return Result(
        schema=raw.schema,
        cell=_shared(_cell, raw.cell),
        lock_sha256=raw.lock_sha256,
        code_sha256=raw.code_sha256,
        probe_sha256=raw.probe_sha256,
        installed=_shared(_installed, raw.installed),
        hardware=_shared(_hardware, raw.hardware),
        session=raw.session,
        started_at=raw.started_at,
        duration_s=raw.duration_s,
        outcome=raw.outcome,
        record=raw.record,
        detail_sha256=raw.detail_sha256,
    )


def _shared(decoder: msgspec.json.Decoder[Any], raw: msgspec.Raw) -> Any:
    """The decoded value, one object for equal bytes: a stack's hundreds of results repeat what is installed in it."""
    key = bytes(raw)
    value = _memo.get(key)
    if value is None:
        value = _memo[key] = decoder.decode(key)
    return value


_LOADERS: dict[int, Callable[[bytes], Result]] = {1: _load_1}
