"""The checksum that a JSON object carries as its last field: ``..., "sha256": HASH}``, of its bytes without that field.

It detects damage and careless edits. It is no signature: an editor can compute it, too.
"""

from __future__ import annotations

import hashlib
import re

_FIELD = re.compile(rb',"sha256":"([0-9a-f]{64})"\}\n?\Z')
_LENGTH = len(',"sha256":""}\n') + 64


def with_checksum(content: bytes) -> bytes:
    """Return an object, which has at least one field, with its checksum."""
    return b'%b,"sha256":"%b"}' % (content[:-1], _hash(content))


def is_as_written(content: bytes) -> bool:
    """Return True if an object has the checksum of its content; False if it has none, or is spelled differently."""
    start = max(0, len(content) - _LENGTH)
    found = _FIELD.search(content, start)
    return found is not None and found[1] == _hash(content[: found.start()] + b"}")


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
