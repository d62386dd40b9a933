"""A call that an installed package does not take, or an attribute that it lacks, is told with that package."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path

import pytest

from dsregress.probe.border import faults
from dsregress.probe.border.detail_lines import package_refusing

LIBRARY = """
class Trainer:
    def __init__(self, model): ...
    def train(self): ...
def evaluate(model): ...
"""


@pytest.fixture
def trainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "site-packages"
    (packages / "trainers").mkdir(parents=True)
    (packages / "trainers" / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(packages))
    importlib.invalidate_caches()


@pytest.mark.usefixtures("trainers")
@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("trainers.Trainer(model=1, tokenizer=2)", "trainers"),
        ("trainers.Trainer(1).train(2)", ""),  # of what no name holds, nothing is called twice
        ("trainers.evaluate()", "trainers"),
        ("trainers.Trainer(1).tokenizer", "trainers"),
        ("trainers.tokenize()", "trainers"),
        ("Own(1)", ""),
        ("None.x", ""),
        ("1 + None", ""),
    ],
)
def test_a_call_that_a_package_does_not_take_names_it(tmp_path: Path, line: str, package: str) -> None:
    program = tmp_path / "train.py"
    program.write_text(f"import trainers\nclass Own:\n    pass\n{line}\n")
    with pytest.raises((TypeError, AttributeError)) as raised:
        runpy.run_path(str(program), run_name="__main__")
    assert package_refusing(faults.detail_of(raised.value)) == package
