"""Advisories that are named on the command line by their ids."""

from __future__ import annotations

import re

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.shipped import read_advisories
from dsregress.errors import UsageError, no_such
from dsregress.wording import commands

_ID = re.compile(r"DSR-\d{4}-\d{4}", re.IGNORECASE)


def named_advisory(text: str) -> Advisory | None:
    """Return the advisory whose id this is; None if it is no id. Raise UsageError for an id that none has."""
    if not _ID.fullmatch(text):
        return None
    advisories = {one.id: one for one in read_advisories()}
    if text.upper() not in advisories:
        raise no_such("advisory", text, list(advisories), most=6)
    return advisories[text.upper()]


def refuse_advisory(text: str, where: str) -> None:
    """Raise UsageError for the id of an advisory, with the command that takes it."""
    if (advisory := named_advisory(text)) is not None:
        hint = f"`{commands.show_named(advisory.id)}` prints it"
        raise UsageError(f"{text} is an advisory's id", where=where, hint=hint)
