"""Programs that are launched in a folder of their project, and reach beside it by ``..``."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import passed, ran

pytestmark = pytest.mark.usefixtures("surroundings")


def test_a_module_beside_its_folder_is_imported_and_what_is_written_there_is_the_runs(folder: Path) -> None:
    inner = folder / "training"
    inner.mkdir()
    (folder / ".git").mkdir()
    (folder / "tools.py").write_text("import torch\nmodel = torch.nn.Linear(4, 4)\n")
    (folder / "data.json").write_text("[4]")
    (inner / "train.py").write_text(
        "import json, os, sys, torch\n"
        "sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), '..')))\n"
        "from tools import model\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1.0)\n"
        "for step in range(9):\n"
        "    model(torch.ones(1, *json.load(open('../data.json')))).sum().backward()\n"
        "    optimizer.step()\n"
        "    torch.save(model.state_dict(), '../last.pt')\n"
    )
    passed(ran(inner, "cpu", 1, "python train.py", run=folder / "run"))  # which is not copied into itself
    assert sorted(path.name for path in folder.iterdir()) == [".git", "data.json", "run", "tools.py", "training"]


def test_a_file_that_is_missing_beside_the_folder_is_named_as_the_program_does(folder: Path) -> None:
    inner = folder / "training"
    inner.mkdir()
    (folder / ".git").mkdir()
    (inner / "train.py").write_text("open('../data/rows.json')")
    record = ran(inner, "cpu", 1, "python train.py")
    assert record.signature.startswith(
        "CannotRun: train.py:1: there is no ../data/rows.json where the program is launched"
    )
