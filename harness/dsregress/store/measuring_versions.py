"""Measuring versions: the version of the measuring code that a result is from, by device mode and adapter.

``harness/dsregress/probe/measuring_versions.toml`` lists the versions, the last of which measures now,
unless it names the adapter as unmoved.
``measured_before.toml`` maps older results, which have a hash of the probe's code instead, to them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dsregress.probe.adapters import adapter_id
from dsregress.probe.scenario import DEVICES

#: The history, next to the code that it describes.
VERSIONS_FILE = Path(__file__).resolve().parents[1] / "probe" / "measuring_versions.toml"

#: Letters of a probe's hash that stand for its version if no other is known.
_SHORT = 8


class MeasuringVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One version of the measuring code in a device mode, and the reason why it was raised."""

    version: int
    date: str
    reason: str
    not_in_golden_run: str = ""  #: the figure that moved, if the golden run does not include it
    unmoved_adapters: tuple[str, ...] = ()  #: by id: their figures are those of the version before


class FormerProbe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A probe from before measuring versions. Without a version in a device mode, its figures are not known to be those of
    any other probe there."""

    sha256: str  #: of its code
    sim: str = ""  #: the version, or the first probe with the same figures
    cpu: str = ""
    cuda: str = ""
    commit: str = ""  #: of this repository, with this code; empty if none has it
    evidence: str = ""  #: for the versions: cells whose figures were compared


def version_history(file: Path = VERSIONS_FILE) -> dict[str, tuple[MeasuringVersion, ...]]:
    """Return every version by device mode, the oldest first."""
    return msgspec.toml.decode(file.read_bytes(), type=dict[str, tuple[MeasuringVersion, ...]])


def measuring_version(device: str, adapter: str) -> str:
    """Return the version that measures in a device mode now, for an adapter by its id or module."""
    return str(versions_of_adapter(_current()[device], adapter)[-1].version)


def versions_of_adapter(history: Sequence[MeasuringVersion], adapter: str) -> tuple[MeasuringVersion, ...]:
    """Return the versions of a device mode that have figures of their own for an adapter, the oldest first."""
    return tuple(entry for entry in history if adapter_id(adapter) not in entry.unmoved_adapters)


def version_of_probe(device: str, probe_sha256: str) -> str:
    """Return the version of a result that was stored without one: the known one of its probe, else the probe itself."""
    return _versions_of_probes().get((device, probe_sha256), probe_sha256[:_SHORT])


@functools.cache
def _current() -> dict[str, tuple[MeasuringVersion, ...]]:
    return version_history()


@functools.cache
def former_probes() -> tuple[FormerProbe, ...]:
    """Return every probe whose results were published or kept before measuring versions."""
    content = Path(__file__).with_name("measured_before.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, tuple[FormerProbe, ...]])["probe"]


@functools.cache
def _versions_of_probes() -> dict[tuple[str, str], str]:
    return {
        (device, probe.sha256): version
        for probe in former_probes()
        for device in DEVICES
        if (version := getattr(probe, device))
    }
