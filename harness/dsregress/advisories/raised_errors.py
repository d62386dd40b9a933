"""The errors by which advisories are known. Pure."""

from __future__ import annotations

from dsregress.advisories.advisory import RaisedError
from dsregress.compare.outcomes import without_sizes

#: A shorter message is shared by many faults.
_TELLING = 36


def is_telling(error: RaisedError) -> bool:
    """Return True if no other fault has such a message."""
    return len(error.message) >= _TELLING


def has_message(text: str, error: RaisedError) -> bool:
    """Return True if a text has the message of an error, whatever its sizes."""
    return without_sizes(error.message) in without_sizes(text)


def is_told(text: str, error: RaisedError) -> bool:
    """Return True if the text of a stored failure has an error whose message no other fault has."""
    return is_telling(error) and error.error in text and has_message(text, error)
