"""The fields of a finding in JSON."""

from __future__ import annotations

from dsregress.model import Finding

_FIELDS = (
    "stack",
    "scenario",
    "variant",
    "device",
    "metric",
    "phase",
    "kind",
    "value",
    "baseline_value",
    "ratio",
    "unit",
    "significant",
    "relevant",
    "message",
    "rank",
    "interval",
    "evidence",
    "intermittent",
)


def finding_fields(found: Finding) -> dict[str, object]:
    """Return the fields by name, as they are: with infinities, and text that is not printable."""
    return {name: getattr(found, name) for name in _FIELDS}
