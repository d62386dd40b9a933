"""Saving in a simulation makes files of the right sizes, of which only what has contents is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
files = pytest.importorskip("safetensors.torch")

from dsregress.programs.substitutes.unwritten_weights import unwritten_weights  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402


@pytest.mark.parametrize("kind", ["torch", "safetensors"])
def test_a_saved_model_has_its_size_and_takes_no_disk(tmp_path: Path, kind: str) -> None:
    place, order = tmp_path / "model", torch.arange(5)
    with unwritten_weights(), Simulation(0, 2):
        model = {"weight": torch.empty(1 << 26), "order": order.clone()}
        if kind == "torch":
            torch.save(model, place)
        else:
            files.save_file(model, place)
            with pytest.raises(RuntimeError, match="share memory"):
                files.save_file({"a": model["weight"], "b": model["weight"]}, tmp_path / "shared")
    assert place.stat().st_size > 1 << 28
    assert place.stat().st_blocks * 512 < 1 << 20
    kept = torch.load(place, mmap=True) if kind == "torch" else files.load_file(place)
    assert torch.equal(kept["order"], order)
    assert kept["weight"].shape == (1 << 26,)
    assert not os.path.exists(tmp_path / "shared")
