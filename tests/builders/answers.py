"""Answers of `reproduce` and `bisect`, as they are stored: of releases that hold more after backward."""

from __future__ import annotations

import json
from typing import Any

from dsregress.report import stored_answers
from dsregress.report.stored_answers import StoredAnswers

METRIC = "backward.device_retained_bytes"


def reproduction(cell: str, **changes: Any) -> dict[str, Any]:
    """Of 0.16.0 against 0.15.4, confirmed."""
    return {
        "schema": 3,
        "cell": cell,
        "metric": METRIC,
        "package": "deepspeed",
        "bad": "0.16.0",
        "good": "0.15.4",
        "confirmed": True,
        "why_not": "",
        "smallest_cell": cell,
        "needs": [],
        "indifferent": [],
        "runs": [],
        "remedies": [],
        "script": "",
        **changes,
    }


def search(kind: str, before: str, after: str, **changes: Any) -> dict[str, Any]:
    """Of releases or of commits, for the change between two of them."""
    change = {"before": before, "after": after, "to": "bad", "open": 0, "exact": True}
    found = {"kind": kind, "package": "deepspeed", "metric": METRIC, "to": "bad", "probes": [], "changes": [change]}
    return {**found, **changes}


def bisection(workload: str, *searches: dict[str, Any]) -> dict[str, Any]:
    return {"schema": 1, "workload": workload, "courses": searches}


def read(*answers: dict[str, Any]) -> StoredAnswers:
    """From files that are called ``leak0.json``, ``leak1.json``, ..."""
    return stored_answers.read_answers([(f"leak{at}.json", json.dumps(one).encode()) for at, one in enumerate(answers)])
