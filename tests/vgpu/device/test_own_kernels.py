"""CUDA code that a program compiles itself. Needs setuptools, as torch's extensions do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
cpp_extension = pytest.importorskip("torch.utils.cpp_extension")

from vgpu.device import own_kernels  # noqa: E402
from vgpu.no_stand_in import NoStandInError  # noqa: E402
from vgpu.replacing import Patches  # noqa: E402


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("load", "load_inline"):  # what they are without this project
        monkeypatch.setattr(cpp_extension, name, lambda name, *args, **options: f"built {name}")
    for name in ("load", "load_inline"):
        getattr(cpp_extension, name).__name__ = name
    with Patches() as patches:
        own_kernels.own_kernels_refused(patches)
        yield


@pytest.mark.parametrize(
    "compile",
    [
        lambda: cpp_extension.load(name="wkv6", sources=["cuda/wkv6_op.cpp", "cuda/wkv6_cuda.cu"], verbose=True),
        lambda: cpp_extension.load("wkv6", "wkv6_cuda.cu"),
        lambda: cpp_extension.load("wkv6", ["op.cpp"], with_cuda=True),
        lambda: cpp_extension.load_inline("wkv6", ["int one();"], ["__global__ void two() {}"]),
        lambda: cpp_extension.load_inline(name="wkv6", cpp_sources="", cuda_sources="__global__ void two() {}"),
    ],
)
def test_an_extension_with_cuda_code_is_named(compile: object) -> None:
    with pytest.raises(NoStandInError, match="wkv6, which the program compiles from CUDA code, has no stand-in"):
        compile()  # type: ignore[operator]


def test_a_kernel_is_named() -> None:
    if not hasattr(torch.cuda, "_compile_kernel"):
        pytest.skip("this torch compiles no kernels")
    with pytest.raises(NoStandInError, match="add, which"):
        torch.cuda._compile_kernel("__global__ void add() {}", "add", compute_capability="90")


def test_extensions_in_cpp_are_built() -> None:
    assert cpp_extension.load("fast", ["fast.cpp"]) == "built fast"
    assert cpp_extension.load_inline("fast", "int one();") == "built fast"
