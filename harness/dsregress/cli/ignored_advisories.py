"""The advisories that a project leaves out: on the command line, or in pyproject.toml until a day."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.shipped import read_advisories
from dsregress.cli.lines import print_note
from dsregress.config.audit import IgnoredAdvisory
from dsregress.config.settings import Settings
from dsregress.errors import no_such


def ignored_ids(ids: Sequence[str], configured: Sequence[IgnoredAdvisory], advisories: Sequence[Advisory]) -> set[str]:
    """Return the ids that are left out today. Raise UsageError for one that no advisory has."""
    known = [one.id for one in advisories]
    for name, where in (
        *((one, "--ignore") for one in ids),
        *((one.id, "[tool.dsregress.audit]") for one in configured),
    ):
        if name not in known:
            raise no_such("advisory", name, known, where=where, most=6)
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    for one in configured:
        if one.expires < today:
            print_note(f"{one.id} was ignored until {one.expires} ({one.reason}); it is no longer")
    return {*ids, *(one.id for one in configured if one.expires >= today)}


def heeded_advisories(settings: Settings) -> list[Advisory]:
    """Return the advisories without those that the configuration leaves out, which a note names. Raise UsageError."""
    advisories = read_advisories()
    left_out = ignored_ids((), settings.audit.ignore, advisories)
    if left_out:
        print_note(f"ignored: {', '.join(sorted(left_out))} ([tool.dsregress.audit])")
    return [one for one in advisories if one.id not in left_out]
