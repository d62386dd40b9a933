"""One result as bytes, and back: the schema of the files under ``results/``.

History of the schema
    2  2026-11  Ends with a checksum, ``sha256`` (`dsregress.store.checksum`). A file that does not match its own is not
    read.
                Failures are as they were judged, and no longer read by their texts.
    1  2026-11  First. The file is `dsregress.model.Result` on one line; the parts of its detail
                (`dsregress.probe.border.wire.Detail`) are in files of their own, named by the hashes in ``detail_sha256``
                (see `dsregress.store.details`). Optional, and absent from older files: ``image``, the ``shape`` of the model
                in a cell's ``parameters``, ``left``, the ``costs`` of timed rounds, and what a rank has ``saved``. A rank
                with an empty ``ideal`` has the first rank's; older files repeat it. Since 2026-11-27 fields of numerics that
                are empty are left out. Values of a configuration that JSON has
                no word for (infinity, NaN, more than 64 bits, bytes) are texts since 2026-11-22
                (`dsregress.probe.border.encoding`); before, such a run failed. Since then an outcome may be
                ``machine_fault``; older files have it as a failure, which is read by its text, and may have passed without
                figures, which is read as a failure of the harness. So is one whose oracle broke, by its note. Since
                2026-11-26 a result has its ``measuring_version`` and a cell its adapter's id as ``framework``; older files
                are read through `dsregress.store.measuring_versions` and `dsregress.probe.adapters.FORMER_PATHS`.

To change it: raise `SCHEMA`, write down here what changed, and keep a loader for the old one in `_LOADERS`. A file is
never rewritten to a newer schema: it is what was measured.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from dsregress.model import (
    NO_FIGURES,
    Cell,
    Environment,
    Failed,
    Hardware,
    MachineFault,
    Outcome,
    OutOfMemory,
    Passed,
    Result,
    has_figures,
)
from dsregress.probe.adapters import FORMER_PATHS, adapter_id
from dsregress.probe.border import machine, own_faults
from dsregress.probe.border.plausible import MOST, nests_too_deep, why_implausible
from dsregress.probe.border.wire import NO_TRUTH, Detail, Numerics, RankRecord, RunRecord
from dsregress.store.checksum import is_as_written, with_checksum
from dsregress.store.measuring_versions import measuring_version, version_of_probe
from dsregress.system import clock
from dsregress.system.decoding import Damaged, decoded

SCHEMA = 2

#: The schema from which on every failure is stored as whose it is: it is no longer read by its text.
_JUDGED_SINCE = 2

#: Schema of the content key, which does not depend on the format of a file.
_KEY_SCHEMA = 1

_GIB = 1 << 30

#: The signature of an error that an oracle raised, except the one by which it declines a job.
_ERROR = re.compile(r"(?!NotImplementedError\b)\w+(?:Error|Exception)\b(?::|$)")

_FORMER_PATH_OF = {adapter: path for path, adapter in FORMER_PATHS.items()}

#: The values of numerics that are not encoded.
_NUMERICS: Mapping[str, object] = msgspec.to_builtins(Numerics())

_encoder = msgspec.json.Encoder(order="deterministic")


class NotAResult(Exception):
    """The reason, in a few words, why this version cannot read a file."""


class ChangedError(NotAResult):
    """A file is not as it was written, so nothing in it counts."""


class _Head(msgspec.Struct):
    schema: int


_head = msgspec.json.Decoder(_Head)
_detail = msgspec.json.Decoder(Detail)
_result = msgspec.json.Decoder(Result)


def encode(result: Result) -> bytes:
    """Return the whole file, which is of the newest schema."""
    record = result.record
    if record is not None and record.ranks:
        first, *others = record.ranks
        once = [dataclasses.replace(rank, ideal={}) if rank.ideal == first.ideal else rank for rank in others]
        ranks = list(map(_without_empty_numerics, (first, *once)))
        result = msgspec.structs.replace(result, record=dataclasses.replace(record, ranks=ranks))
    return with_checksum(_encoder.encode(msgspec.structs.replace(result, schema=SCHEMA))) + b"\n"


def _without_empty_numerics(rank: RankRecord) -> RankRecord:
    """Return a rank as it is encoded: what its numerics have nothing of is left out."""
    if rank.numerics is None:
        return rank
    brief = {name: value for name, value in msgspec.to_builtins(rank.numerics).items() if value != _NUMERICS[name]}
    return dataclasses.replace(rank, numerics=cast("Numerics", brief))  # for the encoder alone


def decode(data: bytes) -> Result:
    """Return the result in ``data``. Raise NotAResult."""
    try:
        schema = decoded(_head, data).schema
    except Damaged as error:
        raise NotAResult(f"damaged, or not a result: {error}") from None
    if schema > SCHEMA:
        raise NotAResult(
            f"written by a newer version (schema {schema}, this one reads up to {SCHEMA}): update dsregress"
        )
    if schema not in _LOADERS:
        raise NotAResult(f"not a result: there never was a schema {schema}")
    try:
        return _LOADERS[schema](data)
    except Damaged as error:
        raise NotAResult(f"damaged: {error}") from None


def encode_parts(detail: Detail) -> dict[str, bytes]:
    """Return part of a detail -> its bytes, which are the same for equal parts; without those that are empty."""
    parts = {field.name: getattr(detail, field.name) for field in dataclasses.fields(Detail)}
    return {name: _encoder.encode(part) for name, part in parts.items() if part}


def decode_parts(parts: Mapping[str, bytes]) -> Detail:
    """Decode the parts that `encode_parts` encoded. Raise NotAResult."""
    try:
        fields = (b'"%b":%b' % (name.encode(), part) for name, part in parts.items())
        return decoded(_detail, b"{" + b",".join(fields) + b"}")
    except Damaged as error:
        raise NotAResult(f"damaged: {error}") from None


def detail_hashes(detail: Detail) -> dict[str, str]:
    """Return part of the detail -> hash, for `Result.detail_sha256`."""
    return {name: hashlib.sha256(part).hexdigest() for name, part in sorted(encode_parts(detail).items())}


def content_key(
    cell: Cell, *, lock_sha256: str, code_sha256: str, measuring_version: str, hardware: Hardware, image: str = ""
) -> str:
    """Return the hash of everything a result depends on: two runs of one key measure the same thing.

    Memory counts in whole GiB, because kernels of the same machine differ in the memory that they reserve.
    """
    measured_by = {"measuring": measuring_version}
    return _hash_parts(_key_parts(cell, cell.framework, measured_by, lock_sha256, code_sha256, hardware, image))


def _key_parts(
    cell: Cell,
    framework: str,
    measured_by: Mapping[str, str],
    lock_sha256: str,
    code_sha256: str,
    hardware: Hardware,
    image: str,
) -> dict[str, object]:
    parts: dict[str, Any] = {
        "schema": _KEY_SCHEMA,
        "cell": cell.id,
        "scenario_version": cell.scenario_version,
        "framework": framework,
        "parameters": cell.parameters,
        "lock": lock_sha256,
        "code": code_sha256,
        **measured_by,
        "hardware": [
            hardware.cpu,
            hardware.cores,
            round(hardware.memory_bytes / _GIB),
            hardware.gpus,
            hardware.gpu_driver,
        ],
    }
    if image:  # absent from the keys of all that ran in none
        parts["image"] = image
    return parts


def _hash_parts(parts: Mapping[str, object]) -> str:
    return hashlib.sha256(_encoder.encode(parts)).hexdigest()


def key_parts_in(environment: Environment, cell: Cell, *, hardware: Hardware) -> dict[str, object]:
    """Return what the content key of a cell's runs in an environment is made of, as they are measured now."""
    measured_by = {"measuring": measuring_version(cell.device, cell.framework)}
    lock, code = environment.lock_sha256, environment.code_sha256
    return _key_parts(cell, cell.framework, measured_by, lock, code, hardware, environment.image)


def key_in(environment: Environment, cell: Cell, *, hardware: Hardware) -> str:
    """Return the content key of a cell's runs in an environment, as they are measured now."""
    return _hash_parts(key_parts_in(environment, cell, hardware=hardware))


def key_parts_of(result: Result) -> dict[str, object]:
    """Return what the content key of a stored result is made of."""
    measured_by = {"measuring": result.measuring_version}
    lock, code = result.lock_sha256, result.code_sha256
    return _key_parts(result.cell, result.cell.framework, measured_by, lock, code, result.hardware, result.image)


def key_of(result: Result) -> str:
    """Return the content key of a stored result."""
    return _hash_parts(key_parts_of(result))


def changed_key_parts(result: Result, parts: Mapping[str, object]) -> list[str]:
    """Return the names of the key parts in which a stored result differs from a run with ``parts``."""
    before = key_parts_of(result)
    names = [*parts, *(before.keys() - parts.keys())]
    return [name for name in names if _encoder.encode(before.get(name)) != _encoder.encode(parts.get(name))]


def former_key_of(result: Result) -> str:
    """Return the key that the file and the explanation of an older result are named by."""
    framework = _FORMER_PATH_OF.get(result.cell.framework, result.cell.framework)
    measured_by = {"probe": result.probe_sha256}
    lock, code = result.lock_sha256, result.code_sha256
    return _hash_parts(_key_parts(result.cell, framework, measured_by, lock, code, result.hardware, result.image))


def _load_1(data: bytes) -> Result:
    result = decoded(_result, data)
    if why := _why_impossible(result):
        raise Damaged(why)
    ranks = result.record.ranks if result.record is not None else []
    for rank in ranks:
        rank.ideal = rank.ideal or ranks[0].ideal
    return _as_of_today(result)


def _as_of_today(result: Result) -> Result:
    """Return an older result with today's values: its adapter, its measuring version, its outcome."""
    changes: dict[str, Any] = {}
    if (framework := adapter_id(result.cell.framework)) != result.cell.framework:
        changes["cell"] = msgspec.structs.replace(result.cell, framework=framework)
    if not result.measuring_version:
        changes["measuring_version"] = version_of_probe(result.cell.device, result.probe_sha256)
    if (outcome := _true_outcome(result)) is not result.outcome:
        changes["outcome"] = outcome
    return msgspec.structs.replace(result, **changes) if changes else result


def _load_2(data: bytes) -> Result:
    result = _load_1(data)
    if not is_as_written(data):
        raise ChangedError(
            f"damaged or edited after {result.cell.id} was measured: its checksum does not match; restore it, or remove it "
            "and measure again"
        )
    return result


def _true_outcome(result: Result) -> Outcome:
    """Return the outcome of a result that was written before outcomes distinguished whether the release, the machine or the
    harness ended a run."""
    outcome = result.outcome
    if isinstance(outcome, Failed | OutOfMemory) and result.schema >= _JUDGED_SINCE:
        return outcome  # a log may speak of faults that ended nothing
    match outcome:
        case Passed() if not has_figures(result.record):
            return Failed("harness", NO_FIGURES)
        case Passed() if result.record is not None and (broken := _broken_oracle(result.record)):
            return Failed("harness", broken)
        case Failed(stage, signature, detail) if stage != "harness":
            if fault := machine.in_message(signature) or machine.in_log(detail):
                return MachineFault(stage, fault, signature, detail)
            if own_faults.in_signature(signature):
                return Failed("harness", signature, detail)
        case OutOfMemory(phase, detail) if not result.image and (fault := machine.in_message(detail)):
            return MachineFault(phase, fault, detail)  # a container has a limit of its own
    return outcome


def _broken_oracle(record: RunRecord) -> str:
    """Return the note of an oracle that raised an error; empty if none did. Such a run is not judged."""
    for rank in record.ranks:
        if _ERROR.match(rank.ideal_note):
            return f"the memory oracle broke: {rank.ideal_note}"
        for numbers in (rank.numerics, *rank.models.values()):
            if numbers is not None and _ERROR.match(note := numbers.note.removeprefix(f"{NO_TRUTH}: ")):
                return f"the numerics oracle broke: {note}"
    return ""


def _why_impossible(result: Result) -> str:
    """Return why a result cannot be true although its types are right; empty if it can."""
    ranks = result.cell.parameters.get("world_size", 1)
    if not isinstance(ranks, int) or not 0 < ranks <= MOST:
        return f"{str(ranks)[:40]!r} is not a valid number of ranks"
    if nests_too_deep(result.cell.parameters):
        return "its parameters are nested too deeply"
    if not clock.is_stamp(result.started_at):
        return f"{result.started_at[:40]!r} is not a date"
    if not 0 <= result.duration_s <= MOST:
        return "a time is negative or too large"
    if not 0 <= result.hardware.memory_bytes <= MOST or not 0 <= result.hardware.cores <= MOST:
        return "the hardware is impossible"
    if not all(0 < count <= MOST for count in result.left.values()):
        return "the number of processes that it left is impossible"
    return why_implausible(result.record) if result.record is not None else ""


_LOADERS: dict[int, Callable[[bytes], Result]] = {1: _load_1, 2: _load_2}
