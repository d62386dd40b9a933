"""Advisories as files by OSV's schema, which a reader of OSV takes and which lose nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from dsregress.advisories import osv
from dsregress.advisories.advisory import (
    Advisory,
    AdvisoryKind,
    Evidence,
    FactCondition,
    MeasuredSymptom,
    PartnerCondition,
    RaisedError,
    References,
    ReleaseRange,
    Remedy,
    Ruling,
    ScriptRun,
)
from dsregress.advisories.shipped import advisory_folder, read_advisories

SCHEMA = json.loads((Path(__file__).parent / "osv_schema" / "schema.json").read_bytes())

WHOLE = Advisory(
    id="DSR-2026-9999",
    title="The gradient is a quarter",
    raises=(RaisedError(error="KeyError", message="torch.float32", file="deepspeed/", phase="step"),),
    shown_by=(MeasuredSymptom(metrics=("outcome",), phase="step", error="no_sync", where={"exported": ("",)}),),
    kind=AdvisoryKind.TRAINS_WRONG,
    ruling=Ruling.FAULT,
    ranges=(
        ReleaseRange(package="deepspeed", affected=("0.16.0", "0.16.7", "0.18.3"), unaffected=("0.15.4", "0.16.8")),
        ReleaseRange(package="transformers", affected=("4.46.2",), unaffected=("4.46.1", "4.47.0")),
    ),
    conditions=(
        FactCondition(
            fact="zero_stage", shown=(0, 1, 2), hidden=(3,), unknown=(None,), text="ZeRO stage 0, 1 or 2", others=True
        ),
        FactCondition(fact="gradient_clipping", shown=(1.0, True), hidden=(0.0, False, 0), above=0.5),
    ),
    partners=(PartnerCondition(package="torch", affected=("2.10.0",), unaffected=("2.9.1",)),),
    in_some_jobs=True,
    sees="a loss that does not fall",
    detail="Each output divides it.",
    size="2 bytes per parameter",
    remedies=(
        Remedy(text="use 0.16.8", package="deepspeed", version="0.16.8"),
        Remedy(text="no clipping", fact="gradient_clipping", value=None, ran_in=("0.16.0",)),
    ),
    evidence=Evidence(
        script="quarter.py",
        further_scripts=("by_hand/quarter_outputs.py",),
        runs=(ScriptRun(releases=("0.16.0", "0.16.7"), exit_code=None, line="ratio 0.25"),),
        reason="none",
        bundles=("a.jsonl.gz",),
        cells=3,
        devices=("cpu",),
        stack="torch 2.13.0",
    ),
    references=References(
        reported=("https://a.example/1",),
        introduced=("https://a.example/2",),
        fixed=("https://a.example/3",),
        related=("https://a.example/4", "https://a.example/5"),
        looked_up="2026-11-24",
    ),
    aliases=("DSR-2026-9998",),
    published="2026-11-26",
    modified="2026-11-27",
    withdrawn="2026-11-28",
)


def _validate(record: Any) -> None:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(SCHEMA, format_checker=checker).validate(record)


def test_a_file_holds_the_whole_advisory() -> None:
    assert osv.decode_advisory(osv.encode_advisory(WHOLE)) == WHOLE


def test_every_field_of_the_record_is_tried_with_a_value_of_its_own() -> None:
    """So that a new field, which `osv` would lose, makes the test above fail."""

    def left_out(struct: msgspec.Struct) -> list[str]:
        found = []
        for field in msgspec.structs.fields(struct):
            if field.default is not msgspec.NODEFAULT and getattr(struct, field.name) == field.default:
                found.append(field.name)
        return found

    assert left_out(WHOLE) == left_out(WHOLE.evidence) == left_out(WHOLE.references) == []


def test_a_file_is_a_record_of_osv() -> None:
    record = json.loads(osv.encode_advisory(WHOLE))
    _validate(record)
    assert record["affected"][0]["ranges"] == [
        {"type": "ECOSYSTEM", "events": [{"introduced": "0.16.0"}, {"fixed": "0.16.8"}]},
        {"type": "ECOSYSTEM", "events": [{"introduced": "0.18.3"}]},
    ]
    with pytest.raises(jsonschema.ValidationError, match="does not match"):
        _validate({**record, "id": WHOLE.id})
    with pytest.raises(jsonschema.ValidationError, match="was unexpected"):
        _validate({**record, "kind": "crashes"})


def test_another_file_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        osv.decode_advisory(b'{"id": "GHSA-1", "modified": "2026-11-27T00:00:00Z"}')


def test_a_shipped_advisory_is_the_same_to_the_byte_once_it_is_read_and_written() -> None:
    for file in sorted(advisory_folder().glob("*.json")):
        assert osv.encode_advisory(osv.decode_advisory(file.read_bytes())) == file.read_bytes()


def test_the_shipped_advisories_are_records_of_osv() -> None:
    files = sorted(advisory_folder().glob("*.json"))
    for file in files:
        _validate(json.loads(file.read_bytes()))
    assert [one.id for one in read_advisories()] == [file.stem for file in files] != []
