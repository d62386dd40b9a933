"""What import-linter (`[tool.importlinter]` in pyproject.toml) cannot say about the packages. See docs/architecture.md."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.paths import ROOT

HARNESS = ROOT / "harness"

#: Modules of the probe that the host imports: standard library, made for both sides.
BORDER = [
    "harness.probe.scenario",
    *(f"harness.probe.border.{file.stem}" for file in sorted((HARNESS / "probe" / "border").glob("[!_]*.py"))),
]

#: file -> why it may read the process's environment.
READS_ENVIRON = {
    "config/settings.py": "it is its job",
    "config/variables.py": "it is its job",
    "cli/__init__.py": "DSREGRESS_DEBUG decides how an error in config is shown",
}


def test_only_config_reads_the_environment() -> None:
    readers = {
        file.relative_to(HARNESS).as_posix()
        for file in HARNESS.rglob("*.py")
        if not {"probe", "measured"}
        & set(file.relative_to(HARNESS).parts)  # the latter are programs as people write them
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"))
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }
    assert readers == set(READS_ENVIRON)


@pytest.mark.parametrize(
    "code",
    [
        "import harness.cli.scenarios, harness.run.pipeline",
        "from harness.probe import scenario; from pathlib import Path; "
        "[scenario.load(f) for f in scenario.find(Path('scenarios')).values()]",
        *(f"import {module}" for module in BORDER),
    ],
)
def test_the_host_needs_no_torch(code: str) -> None:
    check = "; import sys; assert not {'torch', 'deepspeed', 'transformers'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + check], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", BORDER)
def test_what_both_sides_import_is_standard_library_only(module: str) -> None:
    file = ROOT / f"{module.replace('.', '/')}.py"
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or name.startswith("harness.probe"), name
