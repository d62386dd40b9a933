"""What older releases of torch spell otherwise, and which are too old."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.distributed import distributed_c10d  # noqa: E402

from dsregress.probe import oldest_torch  # noqa: E402
from vgpu import autocast_state  # noqa: E402
from vgpu.meters import groups  # noqa: E402
from vgpu.no_stand_in import NoStandInError  # noqa: E402


@pytest.mark.parametrize("by_device", [True, False])
def test_autocast_of_the_cpu_and_of_cuda_are_distinguished(by_device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autocast_state, "BY_DEVICE", by_device)
    with warnings.catch_warnings(), torch.autocast("cpu", dtype=torch.bfloat16):
        warnings.simplefilter("ignore")  # of the functions of old
        assert autocast_state.enabled("cpu")
        assert not autocast_state.enabled("cuda")
        assert autocast_state.dtype("cpu") == torch.bfloat16
        assert autocast_state.dtype("cuda") == torch.float16


@pytest.mark.parametrize(
    ("release", "device", "is_too_old"),
    [
        ("2.1.2", "cpu", True),
        ("2.2.2+cu121", "cpu", False),
        ("2.2.2", "sim", True),
        ("2.3.0", "sim", False),
        ("2.13.0", "sim", False),
    ],
)
def test_a_torch_that_cannot_be_measured_is_refused(
    release: str, device: str, is_too_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", release)
    if not is_too_old:
        oldest_torch.check(device)
        return
    with pytest.raises(NoStandInError, match=rf"torch {release} is too old for {device}: give --torch 2\.\d\.0 or"):
        oldest_torch.check(device)


def test_a_group_is_found_by_its_name_where_torch_does_not_look_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        world = torch.distributed.group.WORLD
        assert groups.named(world.group_name) is not None
        monkeypatch.delattr(distributed_c10d, "_resolve_process_group")
        assert groups.named(world.group_name) is world
    finally:
        torch.distributed.destroy_process_group()
