"""Reads scenario files for the host, in a separate process: a file that ends its process, or never ends, ends only this one.

It answers each path on stdout with one JSON object a line: ``{"scenario": ...}``, or ``{"error": ...}``, after which it
ends. Output of the files goes to stderr.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsregress.probe.scenario import ScenarioError, load


def main(files: Sequence[str]) -> None:
    """Answer each file, and stop at the first error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for file in files:
        try:
            answer: dict[str, Any] = {"scenario": vars(load(Path(file)))}
        except ScenarioError as error:
            answer = {"error": str(error)}
        answers.write(json.dumps(answer, default=dict) + "\n")
        answers.flush()
        if "error" in answer:
            return
