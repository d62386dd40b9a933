"""The adapter that docs/add-a-framework.md shows trains like plain PyTorch, and its memory is counted.

Runs inside a measured environment: ``PYTHON -m pytest tests/probe`` with the repository on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("pytest_benchmark")

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "add-a-framework.md"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's project with what the page shows."""
    folder = tmp_path_factory.mktemp("shown")
    (folder / "scenarios").mkdir()
    for name in ("__init__.py", "models.py", "test_scenarios.py"):
        (folder / "scenarios" / name).write_text((ROOT / "scenarios" / name).read_text())
    files = re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for path, content in files:
        (folder / path).write_text(content)
    return folder


def run(folder: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """``pytest scenarios/``, and where pytest-benchmark left its JSON."""
    report = folder / "benchmark.json"
    command = [sys.executable, "-m", "pytest", "scenarios", "-q", "--import-mode=importlib", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--benchmark-json={report}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done, report


def test_it_passes_and_its_memory_is_counted(shown: Path) -> None:
    done, report = run(shown)
    assert done.returncode == 0, done.stdout
    memory = json.loads(report.read_text())["benchmarks"][0]["extra_info"]
    assert memory["backward_device_peak_bytes"] > memory["init_device_retained_bytes"] > 0


def test_it_is_found_out_when_half_of_each_gradient_is_lost(shown: Path) -> None:
    adapter = shown / "scenarios" / "_ddp.py"
    sound = adapter.read_text()
    broken = sound.replace("self.out.backward()", "(self.out / 2).backward()")
    assert broken != sound
    adapter.write_text(broken)
    try:
        done, _ = run(shown)
    finally:
        adapter.write_text(sound)
    assert done.returncode == 1
    assert "tolerances from plain PyTorch" in done.stdout
