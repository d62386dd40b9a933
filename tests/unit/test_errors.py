"""Each message of an error says what to do next."""

from __future__ import annotations

import ast
from pathlib import Path

from dsregress import errors
from tests.builders.sources import parsed
from tests.paths import SOURCE

PACKAGE = SOURCE / "dsregress"

KINDS = {
    name
    for name, one in vars(errors).items()
    if isinstance(one, type) and issubclass(one, errors.HarnessError) and one is not errors.HarnessError
}

#: file -> how many errors it makes without a hint: their text is that of another error, which has one.
REPEATS_ANOTHER = {"cli/skeleton.py": 1, "launch/ray/executor.py": 1, "run/cell_matrix.py": 1}

#: Those that still leave the next step to the reader.
WITHOUT = {"reproduce/running.py": 2}


def without_hint(file: Path) -> int:
    """How many errors a file makes without a hint."""
    if not any(f"{kind}(" in file.read_text(encoding="utf-8") for kind in KINDS):
        return 0
    calls = (node for node in ast.walk(parsed(file)) if isinstance(node, ast.Call))
    return sum(
        isinstance(call.func, ast.Name)
        and call.func.id in KINDS
        and not any(keyword.arg in ("hint", None) for keyword in call.keywords)
        for call in calls
    )


def test_every_error_says_what_to_do_next() -> None:
    counts = {file.relative_to(PACKAGE).as_posix(): without_hint(file) for file in PACKAGE.rglob("*.py")}
    assert {name: count for name, count in counts.items() if count} == REPEATS_ANOTHER | WITHOUT
