"""The clock of this machine, as far as results need it: they are dated, and the newest of a cell counts.

A clock can be set back: by a battery that is empty, a snapshot that is restored, a time server. Then what is measured later
bears an earlier date, and would count as the older for ever. Durations and timeouts use the monotonic clock.
"""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timedelta, timezone

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(timezone.utc)


def stamp() -> str:
    """Return the present time as results are dated: ``2026-11-22T01:40:05Z``. Stamps sort as text in the order of time."""
    return now().strftime(_FORMAT).rjust(len("2026-11-22T01:40:05Z"), "0")


def is_stamp(text: str) -> bool:
    """Return True if the text is the date of a result."""
    return _STAMP.fullmatch(text) is not None


def name_of_session() -> str:
    """Return a name that no other session has, not even one that begins in the same second of a clock that was set back."""
    return f"{now():%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def behind(stamp: str, earlier: str) -> str:
    """Return the date of a run that began after something dated ``earlier``: its own, unless the clock has been set back
    between."""
    if stamp > earlier or not is_stamp(earlier):
        return stamp
    try:
        moment = datetime.strptime(earlier, _FORMAT) + timedelta(seconds=1)
    except (ValueError, OverflowError):  # no date, or the last second of the year 9999
        return stamp
    return moment.strftime(_FORMAT)


def seconds_between(earlier: str, later: str) -> float:
    """Return the seconds between two stamps."""
    return (datetime.strptime(later, _FORMAT) - datetime.strptime(earlier, _FORMAT)).total_seconds()
