"""Advisories as files: JSON by the schema of Open Source Vulnerabilities (https://ossf.github.io/osv-schema/).

OSV's readers find the packages, releases, text and addresses where they look for them; what OSV has no word for lies under
``database_specific``. Its ranges cannot say "unknown": one ends with the first release that was run without the problem, and
``versions`` has exactly those that were run with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from packaging.version import Version

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
)

SCHEMA_VERSION = "1.7.5"

#: OSV's mark of an identifier whose database is not registered there.
_UNREGISTERED = "x_"

_MIDNIGHT = "T00:00:00Z"

#: OSV's types of references, by our fields.
_REFERENCE_TYPES = {"reported": "REPORT", "introduced": "INTRODUCED", "fixed": "FIX", "related": "WEB"}


class _Package(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ecosystem: str = "PyPI"


class _EventRange(msgspec.Struct, frozen=True, kw_only=True):
    type: str = "ECOSYSTEM"
    events: tuple[dict[str, str], ...]


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Releases that were run without the problem."""

    unaffected: tuple[str, ...]


class _Affected(msgspec.Struct, frozen=True, kw_only=True):
    package: _Package
    ranges: tuple[_EventRange, ...]
    versions: tuple[str, ...]
    ecosystem_specific: _Seen


class _Reference(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    url: str


class _Own(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: AdvisoryKind
    ruling: Ruling
    conditions: tuple[FactCondition, ...] = ()
    partners: tuple[PartnerCondition, ...] = ()
    in_some_jobs: bool = False
    raises: tuple[RaisedError, ...] = ()
    shown_by: tuple[MeasuredSymptom, ...] = ()
    sees: str = ""
    size: str = ""
    remedies: tuple[Remedy, ...] = ()
    evidence: Evidence = Evidence()
    looked_up: str = ""


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    schema_version: str
    id: str
    published: str
    modified: str
    withdrawn: str = ""
    aliases: tuple[str, ...] = ()
    summary: str
    details: str = ""
    affected: tuple[_Affected, ...]
    references: tuple[_Reference, ...] = ()
    database_specific: _Own


_decoder = msgspec.json.Decoder(_Record)


def encode_advisory(advisory: Advisory) -> bytes:
    """Return the file of an advisory, in lines."""
    return msgspec.json.format(msgspec.json.encode(_record(advisory)), indent=2) + b"\n"


def advisory_fields(advisory: Advisory) -> dict[str, Any]:
    """Return what the file of an advisory holds."""
    fields: dict[str, Any] = msgspec.to_builtins(_record(advisory))
    return fields


def decode_advisory(content: bytes) -> Advisory:
    """Return the advisory in a file. Raise msgspec.DecodeError for any other file."""
    record = _decoder.decode(content)
    own = record.database_specific
    ours = {theirs: field for field, theirs in _REFERENCE_TYPES.items()}
    addresses: dict[str, tuple[str, ...]] = dict.fromkeys(_REFERENCE_TYPES, ())
    for one in record.references:
        addresses[ours[one.type]] += (one.url,)
    return Advisory(
        id=record.id.removeprefix(_UNREGISTERED),
        title=record.summary,
        kind=own.kind,
        ruling=own.ruling,
        ranges=tuple(
            ReleaseRange(package=one.package.name, affected=one.versions, unaffected=one.ecosystem_specific.unaffected)
            for one in record.affected
        ),
        conditions=own.conditions,
        partners=own.partners,
        in_some_jobs=own.in_some_jobs,
        raises=own.raises,
        shown_by=own.shown_by,
        sees=own.sees,
        detail=record.details,
        size=own.size,
        remedies=own.remedies,
        evidence=own.evidence,
        references=References(**addresses, looked_up=own.looked_up),
        aliases=record.aliases,
        published=record.published.removesuffix(_MIDNIGHT),
        modified=record.modified.removesuffix(_MIDNIGHT),
        withdrawn=record.withdrawn.removesuffix(_MIDNIGHT),
    )


def event_ranges(affected: tuple[str, ...], unaffected: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the first release of each range of affected ones and the first one after it that is not; empty if there is
    none."""
    order = sorted({*affected, *unaffected}, key=Version)
    ranges: list[tuple[str, str]] = []
    introduced = ""
    for release in order:
        if release in affected and not introduced:
            introduced = release
        elif release not in affected and introduced:
            ranges.append((introduced, release))
            introduced = ""
    return (*ranges, *([(introduced, "")] if introduced else []))


def _record(advisory: Advisory) -> _Record:
    return _Record(
        schema_version=SCHEMA_VERSION,
        id=f"{_UNREGISTERED}{advisory.id}",
        published=f"{advisory.published}{_MIDNIGHT}",
        modified=f"{advisory.modified}{_MIDNIGHT}",
        withdrawn=f"{advisory.withdrawn}{_MIDNIGHT}" if advisory.withdrawn else "",
        aliases=advisory.aliases,
        summary=advisory.title,
        details=advisory.detail,
        affected=tuple(map(_affected, advisory.ranges)),
        references=tuple(_references(advisory.references)),
        database_specific=_Own(
            kind=advisory.kind,
            ruling=advisory.ruling,
            conditions=advisory.conditions,
            partners=advisory.partners,
            in_some_jobs=advisory.in_some_jobs,
            raises=advisory.raises,
            shown_by=advisory.shown_by,
            sees=advisory.sees,
            size=advisory.size,
            remedies=advisory.remedies,
            evidence=advisory.evidence,
            looked_up=advisory.references.looked_up,
        ),
    )


def _affected(one: ReleaseRange) -> _Affected:
    ranges = [
        _EventRange(events=({"introduced": introduced}, *([{"fixed": fixed}] if fixed else [])))
        for introduced, fixed in event_ranges(one.affected, one.unaffected)
    ]
    return _Affected(
        package=_Package(name=one.package),
        ranges=tuple(ranges),
        versions=one.affected,
        ecosystem_specific=_Seen(unaffected=one.unaffected),
    )


def _references(of: References) -> Iterator[_Reference]:
    for field, theirs in _REFERENCE_TYPES.items():
        for url in getattr(of, field):
            yield _Reference(type=theirs, url=url)
