"""Runs that say nothing about the releases in which their stacks differ, as the workload uses none of them."""

from __future__ import annotations

from dsregress.compare.result_pairs import Pair
from dsregress.wording.quantities import enumeration

#: Packages that leave objects of their classes wherever they are used; of others, this cannot tell
#: (`dsregress.probe.meters.used_packages`).
_TOLD_BY_OBJECTS = frozenset(("transformers", "accelerate", "peft", "deepspeed", "trl"))


def why_unused(pair: Pair) -> str:
    """Return the reason why a run without a difference says nothing about the releases that differ from the baseline's;
    empty if it uses one of them, or if that is not known."""
    if pair.base is None or not pair.own.uses or not pair.base.uses:
        return ""
    mine, theirs = pair.result.cell.stack, pair.base.result.cell.stack
    names = mine.versions.keys() | theirs.versions.keys()
    changed = {name for name in names if mine.versions.get(name) != theirs.versions.get(name)}
    is_told = mine.python == theirs.python and changed and changed <= _TOLD_BY_OBJECTS
    if not is_told or not changed.isdisjoint((*pair.own.uses, *pair.base.uses)):
        return ""
    return f"it does not use {enumeration(sorted(changed))}, and says nothing about these releases"
