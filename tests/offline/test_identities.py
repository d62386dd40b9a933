"""What was measured stays valid while the harness changes around it: tried in a copy of the harness that is edited."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.offline.project import GOOD, SCENARIOS, VERSION, Project
from tests.paths import SOURCE

HUNGRY = VERSION["hungry"]
CELLS = 4  #: both releases, on real ranks and in `sim`


@pytest.fixture
def copied(project: Project, tmp_path: Path) -> Iterator[Project]:
    """The project with a harness of its own, which has measured both releases in two device modes."""
    tree = tmp_path / "tree"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    scenarios = tmp_path / "tiny"
    shutil.copytree(SCENARIOS, scenarios)
    edit(scenarios / "fit.py", 'devices={"cpu": {}}', 'devices={"cpu": {}, "sim": {}}')
    made = dataclasses.replace(project, variables={**project.variables, "PYTHONPATH": str(tree)})
    made.configure(GOOD, HUNGRY, scenarios=str(scenarios), select=["fit/base/*"])
    assert to_run(made) == {"cpu": 2, "sim": 2}
    yield made
    assert made.processes() == []


def harness_of(project: Project) -> Path:
    return Path(project.variables["PYTHONPATH"]) / "dsregress"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def to_run(project: Project) -> dict[str, int]:
    """How many cells of each device mode ``regress`` had to measure."""
    before = set(project.results.rglob("*.json"))
    report = project.regress("--no-explain")
    assert len(report.json["cells"]) == CELLS, report.said.err
    new = [file.name for file in set(project.results.rglob("*.json")) - before]
    devices = [match[1] for name in new if (match := re.fullmatch(r"base-(\w+)-[0-9a-f]{12}\.json", name))]
    return {device: devices.count(device) for device in sorted(set(devices))}


def test_a_renamed_module_a_docstring_and_a_model_s_name_leave_all_results_stored(copied: Project) -> None:
    probe = harness_of(copied) / "probe"
    edit(probe / "meters" / "phases.py", '"""The three ways', '"""In other words: the three ways')
    edit(
        harness_of(copied).parent / "skeletons" / "tables" / "models" / "llama.json",
        '"models": {',
        '"models": {"meta-llama/Llama-0": {"same_as": "meta-llama/Llama-2-7b-hf"},',
    )
    rename(probe, "process", "lazy_imports", "late_imports")
    rename(probe, "frameworks", "hf_trainer", "transformers_trainer")
    former = (SOURCE / "dsregress" / "probe" / "adapters.py").read_text().partition("FORMER_PATHS")[2]
    adapters = (probe / "adapters.py").read_text().partition("FORMER_PATHS")[0]
    (probe / "adapters.py").write_text(f"{adapters}FORMER_PATHS{former}")
    assert to_run(copied) == {}


def rename(probe: Path, folder: str, old: str, new: str) -> None:
    """Rename a module, and what imports it."""
    (probe / folder / f"{old}.py").rename(probe / folder / f"{new}.py")
    for file in probe.rglob("*.py"):
        file.write_text(re.sub(rf"\b{folder}\.{old}\b", f"{folder}.{new}", file.read_text()))


def test_a_raised_version_ages_its_own_device_mode_alone(copied: Project) -> None:
    versions = harness_of(copied) / "probe" / "measuring_versions.toml"
    versions.write_text(versions.read_text() + '\n[[cpu]]\nversion = 2\ndate = "2026-12-01"\nreason = "a test"\n')
    assert to_run(copied) == {"cpu": 2}
    assert to_run(copied) == {}
