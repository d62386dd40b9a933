"""DeepSpeed's accelerator on the virtual card."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
deepspeed = pytest.importorskip("deepspeed")
cpu_accelerator = pytest.importorskip("deepspeed.accelerator.cpu_accelerator")

from vgpu.attaching import attached  # noqa: E402
from vgpu.device import deepspeed_release  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402


def test_on_ranks_a_number_makes_a_tensor_as_on_a_card() -> None:
    """``get_norm_with_moe_layers`` of deepspeed/runtime/utils.py makes tensors of norms so."""
    accelerator = cpu_accelerator.CPU_Accelerator()
    with attached("cpu", TorchMeter(device="cpu")):
        made = accelerator.FloatTensor(1.5)
    assert (made.item(), made.dtype, made.device.type) == (1.5, torch.float, "cpu")
    assert accelerator.FloatTensor is torch.FloatTensor


@pytest.mark.parametrize("found", [{"deepspeed_shm_comm": True, "utils": True}, {"utils": True}])
def test_the_operator_that_is_not_to_be_compiled_is_as_before_afterwards(
    found: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepspeed.ops, "__compatible_ops__", dict(found))
    with deepspeed_release.without_shared_memory():
        assert deepspeed.ops.__compatible_ops__ == {**found, "deepspeed_shm_comm": False}
    assert deepspeed.ops.__compatible_ops__ == found
