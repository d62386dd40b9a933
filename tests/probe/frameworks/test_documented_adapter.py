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

from tests.paths import ROOT, SOURCE

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("pytest_benchmark")

PAGE = ROOT / "docs" / "add-a-framework.md"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's project with what the page shows, and with an adapter that loses half of each gradient."""
    folder = tmp_path_factory.mktemp("shown")
    (folder / "scenarios").mkdir()
    for name in ("__init__.py", "models.py", "test_scenarios.py"):
        (folder / "scenarios" / name).write_text((ROOT / "scenarios" / name).read_text())
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    broken = files["scenarios/_ddp.py"].replace("self.out.backward()", "(self.out / 2).backward()")
    using = files["scenarios/llama_ddp.py"].replace("scenarios._ddp", "scenarios._broken")
    assert broken != files["scenarios/_ddp.py"]
    assert using != files["scenarios/llama_ddp.py"]
    for path, content in {**files, "scenarios/_broken.py": broken, "scenarios/llama_broken.py": using}.items():
        (folder / path).write_text(content)
    return folder


@pytest.fixture(scope="module")
def output(shown: Path) -> str:
    """Of ``pytest scenarios/``, which leaves pytest-benchmark's JSON."""
    command = [sys.executable, "-m", "pytest", "scenarios", "-q", "--import-mode=importlib", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-rA", "--benchmark-json=benchmark.json"],
        cwd=shown,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(shown), str(SOURCE), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_it_passes_and_its_memory_is_counted(shown: Path, output: str) -> None:
    assert re.search(r"^PASSED .*\[llama_ddp-", output, re.MULTILINE), output
    (measured,) = [
        one for one in json.loads((shown / "benchmark.json").read_text())["benchmarks"] if "llama_ddp" in one["name"]
    ]
    memory = measured["extra_info"]
    assert memory["backward_device_peak_bytes"] > memory["init_device_retained_bytes"] > 0


def test_it_is_found_out_when_half_of_each_gradient_is_lost(output: str) -> None:
    assert re.search(r"^FAILED .*\[llama_broken-", output, re.MULTILINE), output
    assert "tolerances from plain PyTorch" in output
