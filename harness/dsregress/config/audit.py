"""``[tool.dsregress.audit]``: the advisories that `audit` leaves out."""

from __future__ import annotations

import datetime

import msgspec


class IgnoredAdvisory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An advisory that is left out until a day."""

    id: str
    reason: str
    expires: datetime.date

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(f"{self.id} is ignored without a reason")


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[tool.dsregress.audit]``."""

    ignore: tuple[IgnoredAdvisory, ...] = ()
