"""The rule of imports: values <- stations <- joints <- entries, and the probe apart. See docs/architecture.md."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HARNESS = ROOT / "harness"

VALUES = {"model", "errors", "thresholds", "collecting", "containers", "clusters"}
STATIONS = {
    "config",
    "versions",
    "envs",
    "matrix",
    "launch",
    "store",
    "compare",
    "attribution",
    "gpus",
    "fit",
    "bisection",
    "remedies",
    "recommending",
}
REPORTS = {"report"}
JOINTS = {"pipeline", "measuring", "places", "bisecting", "explaining"}
#: What a person starts.
ENTRIES = {"cli", "__main__", "update_pins", "bench"}

#: Stations that stand on others by their nature: a report reports a comparison, a fit, remedies or a recommendation, a
#: fit is about cards, remedies are judged as fits are, a release is recommended by what a comparison found, and who holds
#: a finding's bytes is worded as the finding is.
MAY_IMPORT = {
    "report": {"compare", "attribution", "fit", "gpus", "bisection", "remedies", "recommending"},
    "attribution": {"compare"},
    "fit": {"gpus"},
    "remedies": {"fit", "gpus"},
    "recommending": {"compare", "fit", "gpus"},
}

#: Modules of the probe that the host imports: standard library, made for both sides.
BORDER = {f"harness.probe.{name}" for name in ("wire", "scenario", "surroundings", "faults", "explanations")}

#: file -> why it may read the process's environment.
READS_ENVIRON = {
    "config.py": "it is its job",
    "cli/__init__.py": "DSREGRESS_DEBUG decides how an error in config is shown",
}


def imported(file: Path) -> Iterator[str]:
    """Modules of ours that a file imports, as dotted names; of ``from a import b`` both a.b and a."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in ("harness", "scenarios"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("harness", "scenarios"):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                path = ROOT / whole.replace(".", "/")
                yield whole if path.with_suffix(".py").exists() or path.is_dir() else str(node.module)


def room(file: Path) -> str:
    return file.relative_to(HARNESS).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return sorted(HARNESS.rglob("*.py"))


def host_sources() -> list[Path]:
    return [file for file in sources() if room(file) != "probe"]


def test_every_room_of_the_harness_has_its_place() -> None:
    known = VALUES | STATIONS | REPORTS | JOINTS | ENTRIES | {"probe", "__init__"}
    assert {room(file) for file in sources()} <= known


def test_imports_run_one_way() -> None:
    wrong = []
    for file in host_sources():
        here = room(file)
        if here in JOINTS | ENTRIES:
            allowed = VALUES | STATIONS | REPORTS | JOINTS | (ENTRIES if here in ENTRIES else set())
        elif here in STATIONS | REPORTS:
            allowed = VALUES | {here} | MAY_IMPORT.get(here, set())
        else:
            allowed = VALUES
        for module in imported(file):
            target = module.split(".")[1] if "." in module else "__init__"
            if target not in allowed | {"probe", "__init__"}:
                wrong.append(f"{file.relative_to(ROOT)} imports {module}")
    assert wrong == []


def test_the_host_takes_from_the_probe_only_what_was_made_for_both() -> None:
    taken = {module for file in host_sources() for module in imported(file) if module.startswith("harness.probe")}
    assert taken <= BORDER


def test_the_probe_imports_nothing_of_the_host() -> None:
    for file in sorted((HARNESS / "probe").rglob("*.py")):
        assert all(module.startswith("harness.probe") for module in imported(file)), file


def test_a_scenario_imports_only_how_to_declare_one() -> None:
    for file in sorted((ROOT / "scenarios").glob("*.py")):
        if file.name != "test_scenarios.py":  # the collector of `pytest scenarios/`
            assert set(imported(file)) <= {"harness.probe.scenario", "harness.probe.coverage"}, file


def test_only_config_reads_the_environment() -> None:
    readers = {
        file.relative_to(HARNESS).as_posix()
        for file in host_sources()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"))
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }
    assert readers == set(READS_ENVIRON)


@pytest.mark.parametrize(
    "code",
    [
        "import harness.cli.scenarios, harness.pipeline",
        "from harness.probe import scenario; from pathlib import Path; "
        "[scenario.load(f) for f in scenario.find(Path('scenarios')).values()]",
        *(f"import {module}" for module in sorted(BORDER)),
    ],
)
def test_the_host_needs_no_torch(code: str) -> None:
    check = "; import sys; assert not {'torch', 'deepspeed', 'transformers'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + check], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", sorted(BORDER))
def test_what_both_sides_import_is_standard_library_only(module: str) -> None:
    file = ROOT / f"{module.replace('.', '/')}.py"
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or name.startswith("harness.probe"), name
