"""The layout of the tests: nobody imports a test, unit tests lie where their module does, no golden file is left over. And
the docstrings of the code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.builders.sources import parsed
from tests.paths import ROOT, SOURCE

TESTS = ROOT / "tests"
UNIT = TESTS / "unit"
SOURCES = sorted(TESTS.rglob("*.py"))

#: Folders of unit tests for something other than a package of harness/dsregress/.
BESIDES = {"accuracy", "benchmarks", "docs"}


def imported(file: Path) -> set[str]:
    """Modules that a file imports, and each name that it imports from them, with dots; and what these lie in."""
    found: set[str] = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.rsplit(".", up)[0] for name in found for up in range(name.count(".") + 1)}


def test_no_test_module_is_imported() -> None:
    modules = {file.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for file in TESTS.rglob("test_*.py")}
    for file in SOURCES:
        assert not modules & imported(file), (
            f"{file.relative_to(ROOT)} imports a test module; what tests share lives in tests/builders"
        )


@pytest.mark.parametrize(
    "folder", sorted({file.parent.relative_to(UNIT).as_posix() for file in UNIT.rglob("test_*.py")})
)
def test_unit_tests_lie_where_their_package_does(folder: str) -> None:
    assert folder in BESIDES or (SOURCE / "dsregress" / folder / "__init__.py").is_file()


def test_every_golden_file_is_compared_with_something() -> None:
    tests = "".join(file.read_text(encoding="utf-8") for file in SOURCES)
    for file in (TESTS / "golden").iterdir():
        stem = file.name.replace("80", "{width}").replace("120", "{width}")
        assert f'"{file.name}"' in tests or f'f"{stem}"' in tests, f"no test compares {file.name}"


def test_docstrings_say_what_a_thing_does_or_is() -> None:
    """PEP 257: "Return ...", and no noun phrase that only its function's name completes."""
    phrases = ("What", "Whether", "Of", "Where", "Who", "How")
    found = [
        f"{file.relative_to(ROOT)}:{node.body[0].lineno}"
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(parsed(file))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and (ast.get_docstring(node) or "").partition(" ")[0] in phrases
    ]
    assert found == []
