"""What a program finds in ``torch.cuda``, ``torch.distributed`` and ``torch.optim`` on the virtual card is what torch has:
of the same kind, so that it can be an annotation, an argument of ``isinstance`` and a base class."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu import attaching  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402

MODULES = (
    "torch.cuda", "torch.cuda.amp", "torch.cuda.graphs", "torch.cuda.memory", "torch.cuda.nccl", "torch.cuda.nvtx",
    "torch.cuda.random", "torch.cuda.streams", "torch.distributed", "torch.distributed.distributed_c10d",
    "torch.distributed.device_mesh", "torch.distributed.fsdp", "torch.optim", "torch.optim.lr_scheduler", "torch.amp",
    "torch.accelerator", "torch.autograd", "torch.utils.checkpoint", "torch.nn.parallel",
)  # fmt: skip


@contextlib.contextmanager
def attached(target: str) -> Iterator[None]:
    if target == "meta":
        with Simulation(0, 4) as simulation, attaching.attached("meta", simulation.mode, rank=0, world_size=4):
            yield
    else:
        with TorchMeter("cpu", trace=True) as meter, attaching.attached("cpu", meter):
            yield


def surface() -> dict[str, Any]:
    """Each public name of the modules and what it is."""
    found = {}
    for module in MODULES:
        try:
            held = importlib.import_module(module)
        except ModuleNotFoundError:  # an older torch
            continue
        found |= {f"{module}.{name}": value for name, value in vars(held).items() if not name.startswith("_")}
    return found


def kind(value: Any) -> str:
    if inspect.isclass(value):
        return "class"
    if isinstance(value, types.ModuleType):
        return "module"
    return "function" if callable(value) else "value"


#: What torch has without a card.
BEFORE: dict[str, Any] = {}


@pytest.fixture(scope="module", params=["meta", "cpu"])
def there(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    importlib.import_module("torch._dynamo")  # which makes names of its own
    BEFORE.clear()
    BEFORE.update(surface())
    with attached(request.param):
        yield surface()


def test_each_name_is_of_the_kind_that_torch_has(there: dict[str, Any]) -> None:
    kinds = {name: (kind(value), kind(there[name])) for name, value in BEFORE.items() if name in there}
    assert there.keys() >= BEFORE.keys()
    assert {name: both for name, both in kinds.items() if both[0] != both[1]} == {}


def test_each_class_is_an_annotation_an_argument_of_isinstance_and_a_base_class(there: dict[str, Any]) -> None:
    failed = {}
    for name, value in there.items():
        if not inspect.isclass(value) or value is BEFORE[name]:
            continue
        try:
            assert value | None
            assert isinstance(None, value) is False
            type("Own", (value,), {})
        except TypeError as error:
            failed[name] = str(error)
    assert failed == {}


def test_a_class_has_the_methods_that_torchs_own_has(there: dict[str, Any]) -> None:
    lacking = {}
    for name, value in there.items():
        is_tensor_type = name.endswith("Tensor")  # which programs call, and ask for an instance of
        if inspect.isclass(value) and value is not BEFORE[name] and not is_tensor_type:
            public = {each for each in dir(BEFORE[name]) if not each.startswith("_")}
            if gone := public - {*dir(value)}:
                lacking[name] = gone
    assert lacking == {}


def test_a_class_has_one_identity_in_all_modules(there: dict[str, Any]) -> None:
    split = {}
    for name, value in BEFORE.items():
        same = {other for other, one in BEFORE.items() if one is value and inspect.isclass(one)}
        if len({id(there[other]) for other in same}) > 1:
            split[name] = same
    assert split == {}


def test_a_function_takes_the_arguments_that_torchs_own_takes(there: dict[str, Any]) -> None:
    refused = {}
    for name, value in BEFORE.items():
        if kind(value) != "function" or there[name] is value:
            continue
        try:
            given, ours = inspect.signature(value).parameters, inspect.signature(there[name])
        except ValueError:
            continue
        first = [0 for p in given.values() if p.kind == p.POSITIONAL_ONLY]
        either = {p.name: 0 for p in given.values() if p.kind == p.POSITIONAL_OR_KEYWORD}
        keywords = {p.name: 0 for p in given.values() if p.kind == p.KEYWORD_ONLY}
        try:
            ours.bind(*first, *either.values(), **keywords)
            ours.bind(*first, **either, **keywords)
        except TypeError as error:
            refused[name] = f"{inspect.signature(value)}: {error}"
    assert not refused, refused
