"""A stored JSON object that is edited: with the checksum of before, or with its own as by who knows of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from dsregress.store.checksum import with_checksum


def edited(data: bytes, edit: Callable[[Any], None]) -> bytes:
    """By hand: spelled as it was written, with the checksum of before."""
    document = json.loads(data)
    edit(document)
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def forged(data: bytes, edit: Callable[[Any], None]) -> bytes:
    """With a checksum of its own."""
    document = json.loads(data)
    document.pop("sha256", None)
    edit(document)
    return with_checksum(json.dumps(document, ensure_ascii=False).encode())


def resealed(data: bytes) -> bytes:
    """What was edited as text, with a checksum of its own."""
    return with_checksum(re.sub(rb',"sha256":"[0-9a-f]{64}"\}\s*$', b"}", data))


def of_before(data: bytes, edit: Callable[[Any], None]) -> bytes:
    """As an earlier version stored it, whose results had no checksum."""
    document = json.loads(data)
    del document["sha256"]
    edit(document)
    return json.dumps({**document, "schema": 1}).encode()
