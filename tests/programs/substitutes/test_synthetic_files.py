"""Data files that a program reads and does not ship are made up in the format in which its code reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dsregress.programs.substitutes import more_columns, synthetic_files
from tests.programs.cells import passed, ran

pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture(autouse=True)
def none_added() -> Iterator[None]:
    yield
    synthetic_files._files.clear()
    more_columns._added.clear()


TRAIN = """
import csv, json, os, sys
import torch

{read}
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for row in rows[:4]:
    model(torch.full((1, 8), float(len({length})))).sum().backward()
    optimizer.step()
"""

LIST = "rows = json.load(open('data/train.json'))"
LINES = "rows = [json.loads(line) for line in open('data/train.json')]"
OF_ONES_OWN = (
    "path = 'data/a/train.jsonl'\nif not os.path.exists(path):\n    raise ValueError(f'{path} does not exist')\n"
)
TABLE = "rows = list(csv.DictReader(open('train.csv')))"
ON_THE_LINE = "rows = json.load(open(sys.argv[1]))"


@pytest.mark.parametrize(
    ("read", "length", "line"),
    [
        (LIST, "row['instruction']", "python train.py"),
        (LINES, "row['messages'][0]['content']", "python train.py"),
        (OF_ONES_OWN + "rows = [json.loads(each) for each in open(path)]", "row['text']", "python train.py"),
        (TABLE, "row['text']", "python train.py"),
        ("rows = open('input.txt').read().splitlines()", "row", "python train.py"),
        (ON_THE_LINE, "row['prompt']", "python train.py {}/theirs/train.json"),
    ],
)
def test_rows_are_made_up_as_the_code_reads_them(folder: Path, read: str, length: str, line: str) -> None:
    (folder / "train.py").write_text(TRAIN.format(read=read, length=length))
    passed(ran(folder, "sim", 1, line.format(folder.parent), synthetic_data=True))
    assert sorted(path.name for path in folder.iterdir()) == ["train.py"]


def test_tokens_are_made_up_in_the_type_that_is_mapped(folder: Path) -> None:
    pytest.importorskip("numpy")
    read = "import numpy as np\nrows = np.memmap('data/x/train.bin', dtype=np.uint16, mode='r').reshape(-1, 1024)"
    (folder / "train.py").write_text(TRAIN.format(read=read, length="row"))
    passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py", synthetic_data=True))


def test_a_column_that_the_code_reads_and_the_image_that_it_names_are_there(folder: Path) -> None:
    read = (
        LIST
        + "\nrows = [row['caption'] + open(os.path.join('images', row['image']), 'rb').read().hex() for row in rows]"
    )
    (folder / "train.py").write_text(TRAIN.format(read=read, length="row"))
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))
    assert set(more_columns.added_columns()) == {"caption", "image"}


def test_without_the_option_it_is_named(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN.format(read=LIST, length="row"))
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature == (
        "CannotRun: train.py:5: there is no data/train.json where the program is launched: give --synthetic-data for "
        "made-up rows, or put it there"
    )


@pytest.mark.parametrize(
    "read",
    [
        "rows = json.load(open('settings/train_config.json'))",
        "import pickle; rows = pickle.load(open('data/rows.pkl', 'rb'))",
        "rows = open('weights.bin', 'rb').read()",
    ],
)
def test_settings_and_files_of_other_formats_are_not_made_up(folder: Path, read: str) -> None:
    (folder / "train.py").write_text(TRAIN.format(read=read, length="row"))
    record = ran(folder, "sim", 1, "python train.py", synthetic_data=True)
    assert record.signature.endswith("put it there, or launch it in the folder that has it")


def test_rows_of_another_shape_than_the_code_reads_are_named(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN.format(read="rows = json.load(open('train.json'))['data']", length="row"))
    record = ran(folder, "sim", 1, "python train.py", synthetic_data=True)
    assert record.signature.startswith("CannotRun: train.py:5: made-up rows of train.json do not suit it (TypeError")


LOADS = """
import os, sys
import torch

model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{load}
for _ in range(4):
    model(torch.ones(1, 8)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "load",
    [
        "model.load_state_dict(torch.load('pretrained/vae.ckpt', map_location='cpu')['model'], strict=True)",
        "path = 'weights/m.pth'\nif not os.path.exists(path):\n    raise ValueError(f'{path} does not exist')\n"
        "model.load_state_dict(torch.load(open(path, 'rb')))",
        "both = torch.load('m.pt')\nmodel.load_state_dict(both['model'])\noptimizer.load_state_dict(both['optimizer'])",
        "from safetensors.torch import load_file\nmodel.load_state_dict(load_file('m.safetensors'))",
    ],
)
def test_a_model_keeps_its_initial_weights_in_place_of_those_of_a_file(folder: Path, load: str) -> None:
    pytest.importorskip("safetensors")
    (folder / "train.py").write_text(LOADS.format(load=load))
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))
    assert sorted(path.name for path in folder.iterdir()) == ["train.py"]
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature.endswith("give --synthetic-data to keep initial weights, or put it there")


def test_a_model_keeps_its_initial_weights_in_place_of_those_of_an_unknown_repository(folder: Path) -> None:
    load = (
        "from huggingface_hub import hf_hub_download\n"
        "model.load_state_dict(torch.load(hf_hub_download('nobody/speech', 'codec/model.ckpt')))"
    )
    (folder / "train.py").write_text(LOADS.format(load=load))
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature == (
        "NotHere: train.py:8: nobody/speech is not here, and no known model: give --synthetic-data to keep initial weights"
    )
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))


@pytest.mark.parametrize(
    "load",
    [
        "model.weight.data = torch.load('m.pt')['weight'].float()",
        "first = torch.load('m.pt')['epoch'] + 1",
        "model = torch.load('m.pt'); model.train()",
    ],
)
def test_a_program_that_needs_what_a_file_of_weights_has_is_told_so(folder: Path, load: str) -> None:
    (folder / "train.py").write_text(LOADS.format(load=load))
    record = ran(folder, "sim", 1, "python train.py", synthetic_data=True)
    assert (
        record.signature == "NotHere: train.py:7: m.pt is not here, and the program needs what is in it: put it there"
    )


def test_a_program_that_counts_on_what_a_file_of_weights_has_is_told_so_too(folder: Path) -> None:
    (folder / "train.py").write_text(LOADS.format(load="rows = torch.load('m.pt')\nassert len(rows) > 0"))
    record = ran(folder, "sim", 1, "python train.py", synthetic_data=True)
    assert (
        record.signature == "CannotRun: train.py:8: m.pt is not here, and the program needs what is in it: put it there"
    )


def test_another_failure_of_a_program_without_its_weights_stays_what_it_is(folder: Path) -> None:
    load = "model.load_state_dict(torch.load('m.pt'))\nraise ValueError('give a project')"
    (folder / "train.py").write_text(LOADS.format(load=load))
    record = ran(folder, "sim", 1, "python train.py", synthetic_data=True)
    assert record.signature == "ValueError: give a project (train.py:8)"


def test_a_program_goes_on_without_weights_that_it_looks_for_in_vain(folder: Path) -> None:
    load = "try:\n    model.load_state_dict(torch.load('m.pt'))\nexcept FileNotFoundError:\n    print('begins anew')"
    (folder / "train.py").write_text(LOADS.format(load=load))
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))
    assert not synthetic_files._files


OF_A_FOLDER = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({path!r})
model = AutoModelForCausalLM.from_pretrained({path!r}).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    ids = tokenizer(["a b c"], return_tensors="pt").input_ids.cuda()
    model(ids, labels=ids).loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("path", ["/mnt/team/checkpoints/gpt2", "../models/base/gpt2", "checkpoints/gpt2"])
def test_a_known_model_takes_the_place_of_a_folder_of_its_name(folder: Path, path: str) -> None:
    pytest.importorskip("transformers")
    (folder / "train.py").write_text(OF_A_FOLDER.format(path=path))
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))
    assert sorted(one.name for one in folder.iterdir()) == ["train.py"]


def test_without_the_option_the_model_is_named(folder: Path) -> None:
    pytest.importorskip("transformers")
    (folder / "train.py").write_text(OF_A_FOLDER.format(path="/mnt/team/checkpoints/gpt2"))
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature == (
        "CannotRun: train.py:5: there is no .../gpt2 on this machine: give --synthetic-data for the shapes of "
        "openai-community/gpt2, or put it there"
    )
