"""DeepSpeed's accelerator on the virtual card."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
cpu_accelerator = pytest.importorskip("deepspeed.accelerator.cpu_accelerator")

from vgpu.attaching import attached  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402


def test_on_ranks_a_number_makes_a_tensor_as_on_a_card() -> None:
    """``get_norm_with_moe_layers`` of deepspeed/runtime/utils.py makes tensors of norms so."""
    accelerator = cpu_accelerator.CPU_Accelerator()
    with attached("cpu", TorchMeter(device="cpu")):
        made = accelerator.FloatTensor(1.5)
    assert (made.item(), made.dtype, made.device.type) == (1.5, torch.float, "cpu")
    assert accelerator.FloatTensor is torch.FloatTensor
