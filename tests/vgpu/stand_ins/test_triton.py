"""Kernels of a program's own: they are launched and not run, and what they store to is unknown from then on."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.device import launching  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.ledger import DEVICE  # noqa: E402
from vgpu.no_stand_in import NoStandInError  # noqa: E402
from vgpu.stand_ins import triton_stores  # noqa: E402

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="Triton is installed")

KERNELS = """
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def store_row(rows_ptr, row, values, width: tl.constexpr):
    tl.store(rows_ptr + row * width + tl.arange(0, width), values)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)], key=["width"])
@triton.heuristics({"HAS_BIAS": lambda args: args["bias_ptr"] is not None})
@triton.jit
def gather(out_ptr, table_ptr, ids_ptr, lengths_ptr, bias_ptr, width, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    source = table_ptr + tl.load(ids_ptr + row) * width
    target = out_ptr + row * width + tl.load(lengths_ptr)
    columns = tl.arange(0, BLOCK)
    values = libdevice.tanh(tl.load(source + columns, mask=columns < width).to(tl.float32))
    tl.store(target + columns, values, mask=columns < width)


@triton.jit(do_not_specialize=["width"])
def through_a_helper(out_ptr, x_ptr, width: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, width))
    store_row(out_ptr, tl.program_id(0), x, width)


@triton.jit
def by_block(out_ptr, x_ptr, counts_ptr, width: tl.constexpr):
    block = tl.make_block_ptr(base=out_ptr, shape=(width,), strides=(1,), offsets=(0,), block_shape=(64,), order=(0,))
    block = tl.advance(block, (64,))
    tl.store(block, tl.load(x_ptr))
    tl.atomic_add(counts_ptr + tl.program_id(0), 1)


@triton.jit
def by_what_it_is_given(out_ptr, x_ptr, compute: tl.constexpr):
    compute(out_ptr, x_ptr)
"""


@pytest.fixture
def kernels(books: Books, tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "program_kernels.py"
    file.write_text(KERNELS)
    spec = importlib.util.spec_from_file_location("program_kernels", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[module.__name__]


def known(tensor: Any, books: Books) -> Any:
    with torch._C.DisableTorchFunction():
        found = launching._attached[-1].meter.known.contents(tensor)
    return None if found is None else found.tolist()


def test_what_a_kernel_stores_to_is_unknown_and_what_it_loads_is_not(kernels: Any, books: Books) -> None:
    ids, lengths = torch.tensor([2, 1], device="cuda"), torch.tensor([3], device="cuda")
    table, out = torch.randn(8, 100, device="cuda"), torch.zeros(2, 100, device="cuda")
    before, launches = books.ledger.live[DEVICE], launching._attached[-1].meter.op_launches
    kernels.gather[lambda meta: (2, kernels.triton.cdiv(100, meta["BLOCK"]))](out, table, ids, lengths, None, 100)
    assert (books.ledger.live[DEVICE], launching._attached[-1].meter.op_launches) == (before, launches + 1)
    assert (known(out, books), known(ids, books), known(lengths, books)) == (None, [2, 1], [3])
    assert launching.UNKNOWN_WORK in books.notes


def test_a_view_of_what_a_kernel_stores_to_is_unknown_as_well(kernels: Any, books: Books) -> None:
    sums = torch.zeros(4, device="cuda")
    kernels.through_a_helper[(1,)](sums[2:], torch.ones(2, device="cuda"), width=2)
    assert known(sums, books) is None


@pytest.mark.parametrize(
    ("kernel", "stored_to"),
    [
        ("store_row", {"rows_ptr", "row", "width"}),
        ("through_a_helper", {"out_ptr"}),
        ("by_block", {"out_ptr", "width", "counts_ptr"}),
        ("by_what_it_is_given", {"out_ptr", "x_ptr"}),  # what that does is not known
    ],
)
def test_stores_are_read_from_the_source(kernels: Any, kernel: str, stored_to: set[str]) -> None:
    function = getattr(kernels, kernel).fn
    assert triton_stores.written(function) >= {name for name in stored_to if name.endswith("_ptr")}
    assert not {"x_ptr", "ids_ptr"} & (triton_stores.written(function) - stored_to)


def test_a_kernel_without_a_source_stores_to_everything() -> None:
    made: dict[str, Any] = {}
    exec("def kernel(a, b): pass", made)
    assert triton_stores.written(made["kernel"]) == {"a", "b"}


def test_a_descriptor_of_a_tensor_is_that_tensor(kernels: Any, books: Books) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    out = torch.zeros(4, device="cuda")
    kernels.through_a_helper[(1,)](TensorDescriptor.from_tensor(out, [2]), torch.ones(2, device="cuda"), 2)
    assert known(out, books) is None


def test_what_only_kernels_can_call_says_so(kernels: Any) -> None:
    with pytest.raises(NotImplementedError, match="none is run in sim"):
        kernels.tl.load(None)
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        kernels.store_row(None, 0, 0, 1)


def test_a_type_of_a_type_may_annotate_a_kernels_argument(kernels: Any) -> None:
    assert isinstance(kernels.tl.pointer_type(kernels.tl.int64), type)


def test_a_program_learns_of_the_card_from_the_driver(kernels: Any) -> None:
    driver = kernels.triton.runtime.driver.active
    assert driver.get_current_target().arch == 90
    assert driver.utils.get_device_properties(0)["multiprocessor_count"] == 132


def test_on_ranks_there_is_no_triton(meter: Any) -> None:
    assert importlib.util.find_spec("triton") is None


class Driver:
    """Triton's own, on a machine without a GPU."""

    def __init__(self) -> None:
        self.active: Any = None

    def set_active(self, active: Any) -> None:
        self.active = active

    def reset_active(self) -> None:
        raise AssertionError("libcuda.so cannot found!")


def installed(monkeypatch: pytest.MonkeyPatch, modules: dict[str, dict[str, Any]]) -> Driver:
    """A small package with Triton's driver, which is returned, and these modules."""
    driver = Driver()
    for name, attributes in {"triton": {}, "triton.runtime": {"driver": driver}, **modules}.items():
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    return driver


def test_an_installed_triton_defines_kernels_on_cpu_ranks_without_a_driver_of_cuda(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Triton 3.2 asks the driver for its benchmarker, and torch 2.6 requires that Triton."""
    from vgpu import attaching
    from vgpu.meters.meter import TorchMeter

    driver = installed(monkeypatch, {})
    with TorchMeter("cpu") as meter, attaching.attached("cpu", meter):
        assert callable(driver.active.get_benchmarker())
    assert driver.active is None


def test_installed_kernels_are_launched_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a small package with Triton's classes, in a simulation."""
    from vgpu import attaching
    from vgpu.sim import Simulation
    from vgpu.stand_ins import triton_installed

    class JITFunction:
        def __init__(self, fn: Any) -> None:
            self.fn = fn

        def run(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("0 active drivers")

    class Autotuner(JITFunction):
        pass

    driver = installed(
        monkeypatch,
        {
            "triton.runtime.jit": {"JITFunction": JITFunction},
            "triton.runtime.autotuner": {"Autotuner": Autotuner, "Heuristics": type("Heuristics", (JITFunction,), {})},
        },
    )

    def kernel(out_ptr: Any, x_ptr: Any) -> None:
        tl.store(out_ptr, tl.load(x_ptr))  # type: ignore[name-defined]  # noqa: F821

    with Simulation() as simulation, attaching.attached("meta", simulation.mode), triton_installed.launching():
        out, x = torch.zeros(2, device="cuda"), torch.ones(2, device="cuda")
        Autotuner(JITFunction(kernel)).run(out, x, grid=(1,), warmup=False)
        with torch._C.DisableTorchFunction():
            contents = simulation.mode.known.contents
            assert (contents(out), contents(x).tolist()) == (None, [1.0, 1.0])
    assert driver.active is None
    with pytest.raises(RuntimeError, match="0 active drivers"):
        JITFunction(kernel).run()


GLUON = """
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy as cp


@gluon.constexpr_function
def fits(size):
    return size <= 1024


@triton.autotune([triton.Config({"BLOCK": 64})], key=["width"])
@gluon.jit
def copy(out_ptr, x_ptr, width: gl.constexpr, BLOCK: gl.constexpr):
    gl.store(out_ptr + gl.arange(0, BLOCK), gl.load(x_ptr + gl.arange(0, BLOCK)))
"""


def test_gluons_kernels_are_launched_as_tritons(books: Books) -> None:
    module = types.ModuleType("gluon_kernels")
    exec(GLUON, vars(module))
    assert module.copy.arg_names == ["out_ptr", "x_ptr", "width", "BLOCK"]
    module.copy[(1,)](torch.ones(4, device="cuda"), torch.ones(4, device="cuda"), 4)


def test_a_name_without_a_stand_in_has_no_items(books: Books) -> None:
    import triton

    with pytest.raises(NoStandInError, match="has no stand-in"):
        list(triton.language.no_such_name)


def test_a_file_of_kernels_declares_its_benchmarks_on_import(books: Books) -> None:
    import triton

    benchmarks = [triton.testing.Benchmark(x_names=["N"], x_vals=[1024], plot_name="attention", args={"H": 8})]
    timed = triton.testing.perf_report(benchmarks)(lambda N, H: None)
    with pytest.raises(NoStandInError, match=r"triton.testing.Mark.run has no stand-in"):
        timed.run(save_path=".")
    assert triton.testing.do_bench
