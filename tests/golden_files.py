"""Golden files: the exact text that a user reads, in ``tests/golden``, and what the documentation quotes.

``nox -s tests -- --accept`` runs the tests that have one and writes what the code prints now; read the diff before you
commit it. The option and the fixture are in ``tests/conftest.py``.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.paths import ROOT

FOLDER = ROOT / "tests" / "golden"
ACCEPT = "nox -s tests -- --accept"


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Compares a text with a golden file; with ``accept``, writes the file instead."""

    accept: bool

    def __call__(self, name: str, text: str, folder: Path = FOLDER) -> None:
        """Fails when the file is missing or differs in a single character."""
        file = folder / name
        if self.accept:
            file.write_text(text, encoding="utf-8", newline="\n")
            return
        if not file.is_file():
            pytest.fail(f"there is no {file.relative_to(ROOT)}; to write it: {ACCEPT}")
        expected = file.read_bytes().decode("utf-8")
        assert text == expected, f"differs from {file.relative_to(ROOT)}; if it should: {ACCEPT}"

    def quotation(self, page: Path, quoted: str, text: str) -> None:
        """A page's indented block ``quoted`` has to be this text."""
        quoted, text = quoted.strip(), text.strip()
        if self.accept:
            old, new = textwrap.indent(quoted, "    "), textwrap.indent(text, "    ")
            page.write_text(page.read_text(encoding="utf-8").replace(old, new), encoding="utf-8", newline="\n")
            return
        assert text == quoted, f"{page.relative_to(ROOT)} quotes something else; to quote this: {ACCEPT}"
