"""What a program saves, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import SavedTensors  # noqa: E402
from dsregress.programs.watch.saved_state import SavedState  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402

SAVING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(2):
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.save({"step": step, "optimizer": optimizer.state_dict(), "random": {"cpu": torch.get_rng_state()}}, "state.pt")
    if step == 0:
        torch.save({name: value.double() for name, value in model.state_dict().items()}, "model.pt")
torch.save(model.state_dict(), "model.pt")
"""


def listed(saved: Any, *, contents: bool = True) -> list[SavedTensors]:
    state = SavedState(contents=contents)
    state.add(saved)
    return state.listed()


def test_alike_tensors_are_one_entry_and_what_holds_no_weights_is_none() -> None:
    layers = {f"layers.{at}.weight": torch.full((2, 3), -2.0) for at in range(3)}
    assert listed({"module": {**layers, "head2.bias": torch.zeros(4, dtype=torch.bfloat16)}, "step": 1}) == [
        SavedTensors(name="module.layers.*.weight", dtype="float32", shape=[2, 3], count=3, mean=2.0),
        SavedTensors(name="module.head2.bias", dtype="bfloat16", shape=[4], count=1, mean=0.0),
    ]
    assert listed({"cpu": torch.get_rng_state(), "state": {0: {"exp_avg": torch.ones(2)}}}) == []
    assert listed(None) == []


@pytest.mark.parametrize("named", [False, True])
def test_what_an_optimizer_has_of_each_weight_is_listed_without_values(*, named: bool) -> None:
    weights = [torch.nn.Parameter(torch.ones(4, 2)) for _ in range(2)]
    optimizer = torch.optim.AdamW(weights)
    for one in weights:
        one.grad = torch.ones(4, 2)
    optimizer.step()
    saved = {"epoch": 1, "optimizer": optimizer.state_dict()} if named else optimizer.state_dict()
    assert listed(saved) == [
        SavedTensors(name=f"optimizer.state.*.{name}", dtype="float32", shape=[4, 2], count=2, mean=None)
        for name in ("exp_avg", "exp_avg_sq")
    ]


@pytest.mark.parametrize("tensor", [torch.full((2,), torch.inf), torch.empty(0), torch.ones(2, device="meta")])
def test_values_that_are_not_known_have_no_mean(tensor: Any) -> None:
    (saved,) = listed({"weight": tensor})
    assert saved.mean is None


def test_the_last_one_of_a_name_counts() -> None:
    state = SavedState(contents=False)
    state.add({"weight": torch.ones(2)})
    state.add({"weight": torch.ones(3, dtype=torch.float16)})
    assert state.listed() == [SavedTensors(name="weight", dtype="float16", shape=[3], count=1, mean=None)]


@pytest.mark.parametrize(
    ("file", "saved", "empty"),
    [
        ("adapter_model.safetensors", {}, ["adapter_model.safetensors"]),
        ("model-00002-of-00003.safetensors", {}, ["model-00002-of-00003.safetensors"]),
        ("pytorch_model.bin", {"module": {}}, ["pytorch_model.bin"]),
        ("pytorch_model.bin", {"module": {"weight": torch.ones(2)}}, []),
        ("model.safetensors", {"weight": torch.ones(2, dtype=torch.int8)}, []),
        ("training_args.bin", {}, []),  # no weights
        ("optimizer.pt", {}, []),
    ],
)
def test_a_file_of_weights_without_a_tensor_is_empty(file: str, saved: Any, empty: list[str], tmp_path: Path) -> None:
    state = SavedState(contents=False)
    (tmp_path / file).touch()
    state.add(saved, tmp_path / file)
    assert state.empty_files() == empty


def test_a_file_that_is_removed_or_saved_again_with_tensors_is_not_empty(tmp_path: Path) -> None:
    """transformers writes an empty one where DeepSpeed saves the weights, and removes it."""
    state = SavedState(contents=False)
    state.add({}, str(tmp_path / "model.safetensors"))
    assert state.empty_files() == []
    (tmp_path / "adapter_model.bin").touch()
    state.add({}, str(tmp_path / "adapter_model.bin"))
    state.add({"weight": torch.ones(2)}, str(tmp_path / "adapter_model.bin"))
    assert state.empty_files() == []


EMPTY = """
import safetensors.torch, torch
model = torch.nn.Linear(8, 4).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(2):
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    safetensors.torch.save_file({}, "adapter_model.safetensors")
"""


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_program_that_saves_an_empty_file_of_weights_is_seen(device: str, folder: Path) -> None:
    pytest.importorskip("safetensors")
    (folder / "train.py").write_text(EMPTY)
    (rank,) = passed(ran(folder, device, 1, "python train.py", warmup_steps=1)).ranks
    assert rank.empty_files == ["adapter_model.safetensors"]


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "float32"), ("sim", "float64")])
def test_the_checkpoint_at_the_end_is_seen_where_the_program_ends_itself(
    tmp_path: Path, device: str, dtype: str
) -> None:
    """A simulation is over with the measured step."""
    (folder := tmp_path / "program").mkdir()
    (folder / "train.py").write_text(SAVING)
    record = passed(ran(folder, device, 1, "python train.py"))
    saved = record.ranks[0].saved
    assert [(one.name, one.dtype, one.shape, one.count) for one in saved] == [
        ("*.weight", dtype, [8, 8], 1),
        ("*.bias", dtype, [8], 1),
        ("*.weight", dtype, [4, 8], 1),
        ("*.bias", dtype, [4], 1),
    ]
    assert [one.mean is not None for one in saved] == [device == "cpu"] * 4
    assert "save" in record.ranks[0].phases


def test_what_is_pickled_in_memory_is_not_saved(tmp_path: Path) -> None:
    (folder := tmp_path / "program").mkdir()
    in_memory = SAVING.replace('"model.pt"', "io.BytesIO()").replace("import torch", "import io, torch")
    (folder / "train.py").write_text(in_memory)
    assert passed(ran(folder, "cpu", 1, "python train.py")).ranks[0].saved == []
