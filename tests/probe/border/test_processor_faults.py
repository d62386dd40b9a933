"""Errors that only CPU ranks may have are told from those that GPUs have as well."""

from __future__ import annotations

import types

import pytest

from dsregress.probe.border import faults
from dsregress.probe.border.processor_faults import OF_PROCESSORS, is_of_processors


class Stream:
    """As `torch.cpu.Stream`, which has fewer methods than `torch.cuda.Stream`."""

    __module__ = "torch.cpu"


def error_of(lines: str, file: str = "/v/site-packages/torch/distributed/fsdp/_fully_shard.py") -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011, whatever the lines raise
        exec(compile(lines, file, "exec"), {"stream": Stream(), "cpu": types.ModuleType("torch.cpu")})
    return caught.value


@pytest.mark.parametrize(
    ("lines", "file"),
    [
        ("stream.record_event()", "/v/site-packages/torch/distributed/fsdp/_fully_shard.py"),
        ("cpu.memory_stats()", "/v/site-packages/deepspeed/runtime/engine.py"),
        ("type(stream).priority_range()", "/v/site-packages/deepspeed/runtime/engine.py"),
        ("raise RuntimeError('no')", "/v/site-packages/deepspeed/accelerator/cpu_accelerator.py"),
        ("raise RuntimeError('ProcessGroupGloo does not support reduce_scatter')", "/v/train.py"),
    ],
)
def test_an_error_of_what_stands_for_a_card_is_of_processors(lines: str, file: str) -> None:
    error = error_of(lines, file)
    assert is_of_processors(error)
    assert faults.detail_of(error).endswith(OF_PROCESSORS)


@pytest.mark.parametrize(
    "lines",
    ["raise AttributeError('x')", "''.no", "raise RuntimeError('[gloo/transport/tcp/pair.cc:456] Connection closed')"],
)
def test_any_other_error_is_not(lines: str) -> None:
    error = error_of(lines)
    assert not is_of_processors(error)
    assert OF_PROCESSORS not in faults.detail_of(error)
