"""The table of factors in the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.probe.factor import Factor


def factor_table(factors: Sequence[Factor]) -> list[dict[str, str]]:
    """Its rows, as `markdown.table` reads them: one for each group, in the order of its first factor."""
    groups: dict[str, list[str]] = {}
    for factor in factors:
        named = f"`{factor.name}`" if factor.noun == factor.name else f"{factor.noun} (`{factor.name}`)"
        groups.setdefault(factor.group, []).append(named)
    return [{"of": group, "factors": ", ".join(named).strip("`")} for group, named in groups.items()]
