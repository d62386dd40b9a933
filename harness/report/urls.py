"""Where each page of the site lies. A name from a results file never becomes a path as it is."""

from __future__ import annotations

import functools
import hashlib
import re

from harness.model import Finding

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


def findings_page(number: int) -> str:
    """The pages that list all findings."""
    return "findings.html" if number == 0 else f"findings-{number + 1}.html"


def release_page(stack: str) -> str:
    return f"release/{slug(stack)}.html"


def workload_page(workload: str) -> str:
    return f"workload/{slug(workload)}.html"


def trend_page(workload: str) -> str:
    return f"trend/{slug(workload)}.html"


def finding_page(found: Finding) -> str:
    """Of the row whose worst finding this is: the same in every build, whatever the figures are."""
    identity = [found.kind, found.metric, found.phase, found.scenario, found.variant, found.device]
    if found.kind == "failed":
        identity = [found.kind, found.stack, found.message]
    elif found.kind == "changed":
        identity = [found.kind, found.message]
    return f"finding/{slug('-'.join(identity))}.html"


def problem_page(worst: Finding, since: str, after: str) -> str:
    """Of the problem whose worst finding this is, which begins in the stack ``since`` and is gone in the stack ``after``."""
    identity = [worst.kind, worst.metric, worst.phase, worst.scenario, worst.variant, worst.device, since, after]
    return f"problem/{slug('-'.join(identity))}.html"


#: What the first page answers from.
UPGRADE_DATA = "data/upgrade.js"

#: What is searched on pages that show a part of it.
SEARCH_DATA = "data/search.js"


def stack_data(stack: str) -> str:
    return f"data/{slug(stack)}.js"


def badge(workload: str, stack: str) -> str:
    """Without its ending: there is an ``.svg`` and a ``.json``."""
    return f"badge/{slug(workload)}/{slug(stack)}"
