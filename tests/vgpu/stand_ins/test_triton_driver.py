"""What Triton asks its driver for, where it is installed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from vgpu.no_stand_in import NoStandInError
from vgpu.stand_ins import triton_driver


def test_a_kernel_that_is_tuned_can_be_defined_and_is_not_measured() -> None:
    """Triton 3.2's autotuner asks for the benchmarker where a kernel is defined, which DeepSpeed 0.19 does on import."""
    benchmark = triton_driver.active.get_benchmarker()
    with pytest.raises(NoStandInError, match="^Triton's benchmarker has no stand-in"):
        benchmark(lambda: None, warmup=25, rep=100)
