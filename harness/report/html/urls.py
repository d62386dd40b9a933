"""Where each page lies. A name from a results file never becomes a path as it is."""

from __future__ import annotations

import functools
import hashlib
import re

_MOST = 60


@functools.lru_cache(maxsize=10_000)
def slug(text: str) -> str:
    """A file name of letters, digits, ``_``, ``=``, ``.`` and ``-`` for any text: readable, and different for
    different texts. Never empty, never with a leading dot, and never longer than 70 characters."""
    readable = re.sub(r"[^A-Za-z0-9_=.]+", "-", text).strip("-.")[:_MOST].strip("-.")
    readable = re.sub(r"\.{2,}", ".", readable)
    return f"{readable or 'x'}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def matrix_page(number: int) -> str:
    """The pages of the matrix: the first is the site's first."""
    return "index.html" if number == 0 else f"matrix-{number + 1}.html"


def release_page(stack: str) -> str:
    return f"release/{slug(stack)}.html"


def workload_page(workload: str) -> str:
    return f"workload/{slug(workload)}.html"


def trend_page(workload: str) -> str:
    return f"trend/{slug(workload)}.html"


def finding_page(identity: str) -> str:
    return f"finding/{slug(identity)}.html"


def stack_data(stack: str) -> str:
    return f"data/{slug(stack)}.js"


def badge(workload: str, stack: str) -> str:
    """Without its ending: there is an ``.svg`` and a ``.json``."""
    return f"badge/{slug(workload)}/{slug(stack)}"
