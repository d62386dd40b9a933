"""Advisories for tests: a record of few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsregress.advisories.advisory import (
    Advisory,
    AdvisoryKind,
    FactCondition,
    PartnerCondition,
    ReleaseRange,
    Remedy,
    Ruling,
)


def advisory(
    number: int = 1,
    title: str = "a problem",
    *,
    kind: AdvisoryKind = AdvisoryKind.TRAINS_WRONG,
    ruling: Ruling = Ruling.FAULT,
    affected: Sequence[str] = ("0.17.0", "0.18.0"),
    unaffected: Sequence[str] = ("0.16.0", "0.19.0"),
    needs: Mapping[str, tuple[Sequence[Any], Sequence[Any]]] = {},
    partners: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {},
    remedies: Sequence[Remedy] = (),
    package: str = "deepspeed",
    **fields: Any,
) -> Advisory:
    """Return an advisory. ``needs`` has for each fact the values that show it and those that do not; ``partners`` the
    releases of each package beside which it is and is not seen."""
    return Advisory(
        id=f"DSR-2026-{number:04d}",
        title=title,
        kind=kind,
        ruling=ruling,
        ranges=(ReleaseRange(package=package, affected=tuple(affected), unaffected=tuple(unaffected)),),
        conditions=tuple(
            FactCondition(fact=fact, shown=tuple(shown), hidden=tuple(hidden))
            for fact, (shown, hidden) in needs.items()
        ),
        partners=tuple(
            PartnerCondition(package=name, affected=tuple(seen), unaffected=tuple(unseen))
            for name, (seen, unseen) in partners.items()
        ),
        remedies=tuple(remedies),
        **fields,
    )
