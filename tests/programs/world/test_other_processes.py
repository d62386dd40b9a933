"""Programs with processes beside them: workers that are started anew, and servers that nobody starts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import passed, ran

SPAWNING = """
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    rows = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        for (x,) in rows:
            model(x.cuda()).sum().backward()
            optimizer.step()
"""

ITS_OWN = """
import multiprocessing, torch

def count(cards):
    torch.ones(1).cuda()
    cards.put(torch.cuda.device_count())

if __name__ == "__main__":
    multiprocessing.set_start_method("METHOD", force=True)
    cards = multiprocessing.Queue()
    process = multiprocessing.Process(target=count, args=(cards,))
    process.start()
    seen = cards.get(timeout=60)
    process.join()
    model = torch.nn.Linear(4, 4 * seen).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    while True:
        model(torch.ones(2, 4).cuda()).sum().backward()
        optimizer.step()
"""

POLLING = """
import time, urllib.request

def batch():
    try:
        return urllib.request.urlopen("http://localhost:59875/get", timeout=5).read()
    except:
        return None

while batch() is None:
    time.sleep(1)
"""


def test_spawned_workers_find_a_script_that_is_given_by_a_relative_path(folder: Path) -> None:
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text(SPAWNING)
    passed(ran(folder, "sim", 1, "python code/train.py"))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_process_that_a_program_spawns_has_the_card(folder: Path, method: str) -> None:
    (folder / "train.py").write_text(ITS_OWN.replace("METHOD", method))
    passed(ran(folder, "sim", 1, "python train.py"))


def test_a_server_that_nobody_starts_is_named_in_seconds(folder: Path) -> None:
    (folder / "train.py").write_text(POLLING)
    since_s = time.monotonic()
    record = ran(folder, "sim", 1, "python train.py")
    assert time.monotonic() - since_s < 45
    assert (record.outcome, record.stage) == ("failed", "import")
    assert record.signature == (
        "CannotRun: train.py:6 waits for localhost:59875, and the launch line starts no server there: leave out what asks it"
    )
