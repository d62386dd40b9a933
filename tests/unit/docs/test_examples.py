"""Files that the documentation shows work as they stand there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsregress.config import settings
from dsregress.model import Hardware, Stack
from dsregress.probe import framework, scenario
from dsregress.probe.factors import BY_NAME
from dsregress.probe.process.adapter_loading import protocol_names
from dsregress.run.cell_matrix import Selection, build_matrix
from tests.paths import ROOT, SOURCE
from tests.unit.docs import markdown

SCENARIO_PAGE = ROOT / "docs" / "add-a-scenario.md"
FRAMEWORK_PAGE = ROOT / "docs" / "add-a-framework.md"
HARDWARE = Hardware(cpu="x", cores=2, memory_bytes=1 << 34)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A person's scenarios, with all that the pages show written into it."""
    (tmp_path / "scenarios").mkdir()
    for name in ("__init__.py", "models.py", "test_scenarios.py"):
        (tmp_path / "scenarios" / name).write_text((ROOT / "scenarios" / name).read_text())
    for page in (SCENARIO_PAGE, FRAMEWORK_PAGE):
        for path, content in markdown.files(page).items():
            (tmp_path / path).write_text(content)
    return tmp_path / "scenarios"


def test_the_pages_show_the_files_that_they_speak_of(folder: Path) -> None:
    assert sorted(scenario.find(folder)) == ["llama_ddp", "llama_long_context"]
    assert (folder / "_ddp.py").exists()


def test_a_shown_scenario_becomes_cells_in_every_mode_and_variant(folder: Path) -> None:
    declared = scenario.load(scenario.find(folder)["llama_long_context"])
    stack = Stack(python="3.11", versions={"deepspeed": "0.16.4"})
    selection = Selection(scenarios=("llama_long*",), devices=("cpu", "sim"))
    matrix = build_matrix([stack], {"llama_long_context": declared}, selection, (), HARDWARE)
    assert len(matrix.cells) == 2 * len(declared.variants)
    assert {cell.device for cell in matrix.cells} == {"cpu", "sim"}
    shapes = scenario.load_shapes(folder)
    assert {cell.parameters["model"] for cell in matrix.cells} <= set(shapes)


def test_a_shown_scenario_is_about_twenty_lines(folder: Path) -> None:
    lines = (folder / "llama_long_context.py").read_text().splitlines()
    assert len([line for line in lines if line.strip() and not line.startswith(("import", "from", '"""'))]) <= 20


def test_every_parameter_that_a_shown_scenario_sets_is_one_that_the_adapter_reads() -> None:
    shown = markdown.files(SCENARIO_PAGE)["scenarios/llama_long_context.py"]
    namespace: dict[str, scenario.Scenario] = {}
    exec(shown, namespace)
    read = "".join(
        (SOURCE / "dsregress" / "probe" / file).read_text()
        for file in ("workloads/workload.py", "workloads/workload_parameters.py", "frameworks/deepspeed_config.py")
    )
    for parameter in namespace["SCENARIO"].parameters:
        assert parameter in BY_NAME or f"    {parameter}: " in read, parameter


def test_a_shown_adapter_has_all_that_the_protocols_ask_for(folder: Path) -> None:
    """Loaded in a process of its own, as a measured environment would, but without torch: it imports late."""

    code = """import sys
import scenarios._ddp as adapter
print(*dir(adapter))
print(*dir(adapter.Training))
print("torch" in sys.modules)"""
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder.parent), str(SOURCE), str(ROOT)])},
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()
    assert protocol_names(framework.JobAdapter) <= set(told[0].split())
    assert protocol_names(framework.Training) <= set(told[1].split())
    assert told[2] == "False"


@pytest.mark.parametrize("page", markdown.PAGES, ids=markdown.name)
def test_shown_configuration_is_accepted(page: Path, tmp_path: Path) -> None:
    for block in markdown.blocks(page):
        if "[tool.dsregress" in block:
            (tmp_path / "pyproject.toml").write_text(block)
            assert settings.read_settings(start=tmp_path, environ={}) != settings.Settings()


def test_some_configuration_is_shown() -> None:
    shown = [block for page in markdown.PAGES for block in markdown.blocks(page) if "[tool.dsregress" in block]
    assert len(shown) >= 4
