"""Loading a checkpoint in a simulation counts its bytes and reads none."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors")

from dsregress.programs.substitutes.local_weights import local_weights  # noqa: E402
from dsregress.programs.substitutes.unread_weights import unread_weights  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402


def test_a_converted_checkpoint_is_counted_and_takes_no_memory(tmp_path: Path) -> None:
    before = safetensors.safe_open
    with local_weights(tmp_path), Simulation(0, 2) as simulation:
        config = transformers.AutoConfig.from_pretrained("facebook/opt-1.3b")
        simulation.meter.begin()
        held_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        model = transformers.AutoModelForCausalLM.from_pretrained("facebook/opt-1.3b", torch_dtype=torch.float32)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held_before
        reading = simulation.meter.end()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert config.torch_dtype == torch.float16
    assert reading.host_retained_bytes >= 4 * parameters
    assert grown_kib < 400 << 10  # 5.3 GB in fp32
    assert safetensors.safe_open is before


def test_a_small_weight_is_unknown_and_counts_no_kernel(tmp_path: Path) -> None:
    safetensors_torch = pytest.importorskip("safetensors.torch")
    safetensors_torch.save_file({"bias": torch.ones(4)}, tmp_path / "model.safetensors")
    with unread_weights(), Simulation(0, 2) as simulation:
        with safetensors.safe_open(tmp_path / "model.safetensors", "pt") as file:
            bias = file.get_tensor("bias")
        assert simulation.mode.is_ghost(bias)
        assert simulation.mode.op_launches == 0


def test_a_file_that_is_loaded_whole_is_unknown(tmp_path: Path) -> None:
    """By ``get_tensors`` from safetensors 0.8 on."""
    safetensors_torch = pytest.importorskip("safetensors.torch")
    safetensors_torch.save_file({"weight": torch.ones(4, 4, dtype=torch.float16)}, tmp_path / "model.safetensors")
    gives_all = hasattr(safetensors.safe_open, "get_tensors")
    with unread_weights(), Simulation(0, 2) as simulation:
        weight = safetensors_torch.load_file(tmp_path / "model.safetensors")["weight"]
        assert simulation.mode.is_ghost(weight)
        assert simulation.mode.is_ghost(weight.to(torch.float32))
        with safetensors.safe_open(tmp_path / "model.safetensors", "pt") as file:
            assert hasattr(file, "get_tensors") == gives_all
