"""The ledger of patches in a measured environment: what is replaced, in which releases it is, and what is not here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from tests.programs.cells import passed, ran
from tests.vgpu import ledgers

PROGRAM = """
import deepspeed
import torch
import transformers

from vgpu.patch_ledger import ledger_text

model = torch.nn.Linear(8, 8)
config = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "Adam"}, "zero_optimization": {"stage": 3}}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for step in range(6):
    if step == 1:
        open("ledger.txt", "w").write(ledger_text())
    loss = engine(torch.ones(1, 8, device=engine.device)).sum()
    engine.backward(loss)
    engine.step()
"""


@pytest.fixture
def empty_ledger() -> Iterator[None]:
    """A rank's ledger begins with its server's: here the one of these tests, where others have replaced what they like."""
    with ledgers.empty_ledger():
        yield


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.usefixtures("surroundings", "empty_ledger")
def test_every_target_is_here_or_the_ledger_says_why_not(
    device: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "train.py").write_text(PROGRAM)
    run = tmp_path / "run"
    passed(ran(folder, device, 1, "deepspeed train.py", run=run, warmup_steps=1))
    (ledger,) = (file for file in run.rglob("ledger.txt") if "repeats" not in file.parts)
    heading, *rows = ledger.read_text().splitlines()
    starts = [heading.index(title) for title in ("owner", "name", "since", "until", "here", "why")]
    table = [[row[at:end].strip() for at, end in zip(starts, [*starts[1:], None])] for row in rows]
    gone = [row for row in table if row[4] == "no"]
    with capsys.disabled():
        sys.stdout.write(f"\n{len(table)} names are replaced in {device}, of which these are not here:\n")
        sys.stdout.writelines(f"{'  '.join(filter(None, row))}\n" for row in gone)
    assert all(why for *_, why in table)
    assert all(since or until or ";" in why for _, _, since, until, _, why in gone)
    owned = {f"{owner}.{name}" for owner, name, *_ in table}
    assert {"torch.cuda.is_available", "torch.nn.functional.scaled_dot_product_attention"} & owned
    assert "deepspeed.runtime.engine.DeepSpeedEngine.backward" in owned
    assert ("deepspeed.runtime.zero.utils.get_lst_from_rank0" in owned) == (device == "sim")
