"""Paths of the site's pages. A name from a results file never becomes a path unchanged."""

from __future__ import annotations

import functools
import hashlib
import re

from dsregress.model import Finding

_MOST = 60

#: The list of all advisories.
ADVISORIES = "advisories.html"


@functools.lru_cache(maxsize=10_000)
def slug(text: str) -> str:
    """Return a file name of letters, digits, ``_``, ``=``, ``.`` and ``-`` for any text: readable, and different for
    different texts. It is never empty, never has a leading dot, and is never longer than 70 characters."""
    readable = re.sub(r"[^A-Za-z0-9_=.]+", "-", text).strip("-.")[:_MOST].strip("-.")
    readable = re.sub(r"\.{2,}", ".", readable)
    return f"{readable or 'x'}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def matrix_page(number: int) -> str:
    """Return the path of a page of the matrix. Number 0 is the site's first page."""
    return "index.html" if number == 0 else f"matrix-{number + 1}.html"


def findings_page(number: int) -> str:
    """Return the path of a page of the list of findings, numbered from 0."""
    return "findings.html" if number == 0 else f"findings-{number + 1}.html"


def release_page(stack: str) -> str:
    return f"release/{slug(stack)}.html"


def workload_page(workload: str) -> str:
    return f"workload/{slug(workload)}.html"


def trend_page(workload: str) -> str:
    return f"trend/{slug(workload)}.html"


def advisory_page(id: str) -> str:
    return f"advisory/{id}.html"


def finding_page(found: Finding) -> str:
    """Return the path of the page of the row whose worst finding this is. It is the same in every build, whatever the
    figures are."""
    identity = [found.kind, found.metric, found.phase, found.scenario, found.variant, found.device]
    if found.kind == "failed":
        identity = [found.kind, found.stack, found.message]
    elif found.kind == "changed":
        identity = [found.kind, found.message]
    return f"finding/{slug('-'.join(identity))}.html"


def problem_page(worst: Finding, since: str, after: str) -> str:
    """Return the path of the page of a problem, which has this worst finding, begins in the stack ``since``, and is gone in
    the stack ``after``."""
    identity = [worst.kind, worst.metric, worst.phase, worst.scenario, worst.variant, worst.device, since, after]
    return f"problem/{slug('-'.join(identity))}.html"


#: Data for the question on the first page.
UPGRADE_DATA = "data/upgrade.js"

#: Data for the search on pages that show a part of it.
SEARCH_DATA = "data/search.js"


def stack_data(stack: str) -> str:
    return f"data/{slug(stack)}.js"


def badge(scenario: str, release: str) -> str:
    """Return the path of a badge without its ending: there is an ``.svg`` and a ``.json``. It can be told beforehand:
    ``badge/llama3_70b_zero3/0.19.8``."""
    return f"badge/{_quotable(scenario)}/{_quotable(release)}"


def _quotable(name: str) -> str:
    """Return a plain lower-case name unchanged, so that two never differ by case alone, and the slug of any other."""
    return name if re.fullmatch(r"[a-z0-9](?:[a-z0-9_]|[.-](?=[a-z0-9]))*", name) and len(name) <= _MOST else slug(name)
