"""Advisories that are named on the command line by their ids."""

from __future__ import annotations

import re

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.shipped import read_advisories
from dsregress.errors import UsageError, no_such
from dsregress.wording import commands

#: Its files have it with OSV's prefix of databases that it does not list.
_ID = re.compile(r"(?:x_)?(DSR-\d{4}-\d{4})", re.IGNORECASE)


def named_advisory(text: str) -> Advisory | None:
    """Return the advisory whose id this is; None if it is no id. Raise UsageError for an id that none has."""
    found = _ID.fullmatch(text)
    if found is None:
        return None
    advisories = {one.id: one for one in read_advisories()}
    if (id_ := found[1].upper()) not in advisories:
        raise no_such("advisory", text, list(advisories), most=6)
    return advisories[id_]


def refuse_advisory(text: str, where: str) -> None:
    """Raise UsageError for the id of an advisory, with the command that takes it."""
    if (advisory := named_advisory(text)) is not None:
        hint = f"`{commands.show_named(advisory.id)}` prints it"
        raise UsageError(f"{text} is an advisory's id", where=where, hint=hint)
