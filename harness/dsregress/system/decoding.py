"""Foreign bytes -> values. One place handles all the ways in which that fails."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TypeVar

import msgspec

_T = TypeVar("_T")


class Damaged(Exception):
    """The reason, in a few words, why bytes cannot be decoded."""


def decoded(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T:
    """Return the value of JSON by a decoder. Raise Damaged."""
    try:
        return decoder.decode(data)
    except UnicodeDecodeError:  # msgspec checks a text's bytes last, and then speaks as `bytes.decode`
        raise Damaged("a text in it is not UTF-8") from None
    except RecursionError:
        raise Damaged("it is nested too deeply") from None
    except MemoryError:
        raise Damaged("it needs more memory than there is") from None
    except (ValueError, OverflowError) as error:  # msgspec.DecodeError is a ValueError
        raise Damaged(str(error)) from None


def decompressed(data: bytes, limit_bytes: int) -> bytes:
    """Return the content of bytes compressed by gzip, at most ``limit_bytes``. Raise Damaged."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(limit_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:  # gzip.BadGzipFile is an OSError
        raise Damaged(str(error)) from None
    except MemoryError:
        raise Damaged("it needs more memory than there is") from None
    if len(content) > limit_bytes:
        raise Damaged(f"decompressed, it is larger than {limit_bytes >> 20} MiB")
    return content
