"""What of the ``cuda`` mode can be seen without a GPU. Runs inside a measured environment, as `test_sim_exact`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from dsregress.probe.gpu import boards, cuda
from dsregress.probe.meters.host_work import HostWork
from tests.probe import one_of_many
from vgpu.allocator.model import AllocatorSettings
from vgpu.allocator.options import spelled_options


@pytest.mark.parametrize(
    ("world_size", "gpus", "processes", "stubbed"),
    [(2, 2, 2, False), (2, 8, 2, False), (8, 1, 1, True), (32, 4, 1, True), (1, 1, 1, False), (2, 0, 1, True)],
)
def test_there_is_a_rank_for_each_gpu_or_one_for_all(world_size: int, gpus: int, processes: int, stubbed: bool) -> None:
    assert (cuda.processes(world_size, gpus), cuda.stubbed(world_size, gpus)) == (processes, stubbed)


def test_counting_gpus_leaves_cuda_untouched() -> None:
    boards.gpu_count()
    cuda.assert_untouched()


def test_without_a_gpu_a_rank_says_so_in_one_line() -> None:
    expected = pytest.raises(cuda.CudaError, match="no NVIDIA GPU is visible here .*; run this cell on sim or cpu")
    with expected, cuda.metered_gpu(AllocatorSettings(), 0):
        pass


def test_torch_knows_these_words() -> None:
    """It parses them without a GPU, in its builds for the CPU too from 2.10 on."""
    import torch

    if not hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        pytest.skip("a build for the CPU has no allocator options in this torch")
    cuda.set_allocator_options(spelled_options(AllocatorSettings(max_split_size_bytes=128 << 20)))
    with pytest.raises(ValueError, match="Expected 'True' or 'False'"):
        cuda.set_allocator_options("expandable_segments:perhaps")
    cuda.assert_untouched()


def test_backward_hooks_are_profiled_on_the_calling_thread() -> None:
    import torch

    def called() -> int:
        leaf = torch.ones(3, requires_grad=True)
        leaf.register_hook(_hook)
        loss = (leaf * 2).sum()
        work = HostWork()
        with cuda.backward_on_this_thread(), work:
            loss.backward()
        return sum(count for name, count in work.functions().items() if name.endswith("_hook"))

    assert called() == 1


def _hook(gradient: Any) -> None:
    return None


def test_rank_0_of_many_with_real_tensors_and_no_ranks_beside_it_trains() -> None:
    """What one GPU does for a larger job, on the CPU: the same process group, the same sanity checks set aside."""
    one_of_many.preload()
    readings = one_of_many.train({**one_of_many.SMALL, "model": "llama-tiny", "world_size": 32}, "cpu")
    assert readings["1.0.step"]["device_retained_bytes"] > 0
    assert readings["1.0.backward"]["collectives"]
