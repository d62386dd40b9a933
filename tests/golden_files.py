"""Golden files: the exact text that a user reads, in ``tests/golden``.

``nox -s tests -- --accept`` runs the tests that have one and writes what the code prints now; read the diff before you
commit it. The option and the fixture are in ``tests/conftest.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.paths import ROOT

FOLDER = ROOT / "tests" / "golden"
ACCEPT = "nox -s tests -- --accept"


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Compares a text with a golden file; with ``accept``, writes the file instead."""

    accept: bool

    def __call__(self, name: str, text: str) -> None:
        """Fails when the file is missing or differs in a single character."""
        file = FOLDER / name
        if self.accept:
            file.write_text(text, encoding="utf-8", newline="\n")
            return
        if not file.is_file():
            pytest.fail(f"there is no tests/golden/{name}; to write it: {ACCEPT}")
        expected = file.read_bytes().decode("utf-8")
        assert text == expected, f"differs from tests/golden/{name}; if it should: {ACCEPT}"
