"""Usual packages of a day's stack that do not run with the others, most often as torch is newer than the day: the nearest
release that runs is taken, and said."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from dsregress.config.settings import Settings
from dsregress.versions.partners import nearest_partners
from dsregress.versions.stack_plans import StackPlan


def with_running_partners(planned: StackPlan, given: Collection[str], settings: Settings) -> StackPlan:
    """Return stacks of a day in which the packages that are neither ``given`` nor compared run with the others, as far as
    that is known."""
    if not settings.as_of:
        return planned
    unnamed = [package for package in planned.baseline.versions if package not in (*given, *planned.axes)]
    found = nearest_partners(unnamed, [stack.versions for stack in planned.stacks])
    if not found:
        return planned
    stacks = tuple(msgspec.structs.replace(stack, versions={**stack.versions, **found}) for stack in planned.stacks)
    own = planned.baseline.versions
    notes = tuple(
        f"{package} {own[package]}, of {settings.as_of}, does not run with the others: {release} is taken"
        for package, release in found.items()
    )
    return msgspec.structs.replace(planned, stacks=stacks, baseline=stacks[0], notes=(*planned.notes, *notes))
