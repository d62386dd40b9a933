"""Tensors that a release has under other names than another: ``model.language_model.layers.*.q_proj.weight``, which was
``language_model.model.layers.*.q_proj.weight``."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

#: How many of the last parts of its name a renamed tensor keeps at least: ``q_proj.weight``.
_FEWEST_KEPT = 2


def same_tensors(own: Mapping[str, object], base: Mapping[str, object]) -> dict[str, str]:
    """Return the names of the tensors that both have -> their names in ``base``. Each name is without numbers, and leads to
    what no new name changes, such as a shape. A renamed tensor's longer name has all parts of the shorter one, and no other
    ends as much alike."""
    same = {name: name for name in own if name in base}
    new = {name: it for name, it in own.items() if name not in same}
    gone = {name: it for name, it in base.items() if name not in same}
    found = {name: nearest for name, it in new.items() if (nearest := _nearest(name, it, gone))}
    taken = Counter(found.values())
    return same | {name: nearest for name, nearest in found.items() if taken[nearest] == 1}


def _nearest(name: str, it: object, others: Mapping[str, object]) -> str | None:
    kept = {other: _parts_kept(name, other) for other, its in others.items() if its == it}
    most = max(kept.values(), default=0)
    nearest = [other for other, count in kept.items() if count == most]
    return nearest[0] if most >= _FEWEST_KEPT and len(nearest) == 1 else None


def _parts_kept(name: str, other: str) -> int:
    """Return how many parts both end with; 0 if each has one that the other has not."""
    parts, others = name.split("."), other.split(".")
    if not (Counter(parts) <= Counter(others) or Counter(others) <= Counter(parts)):
        return 0
    alike = (one == its for one, its in zip(reversed(parts), reversed(others), strict=False))
    return sum(1 for _ in itertools.takewhile(bool, alike))
