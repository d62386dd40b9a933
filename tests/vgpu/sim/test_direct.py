"""Views and copies that pass by the dispatcher are those that come by it, and all that a simulation knows holds for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from vgpu.attaching import attached  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402

DEVICE = Simulation.device

VIEWS: dict[str, Callable[[Any], Any]] = {
    "narrow": lambda tensor: tensor.narrow(0, 2, 3),
    "narrow by name": lambda tensor: tensor.narrow(dim=0, start=2, length=3),
    "slice": lambda tensor: tensor[2:5],
    "view": lambda tensor: tensor.view(2, -1),
    "view of a size": lambda tensor: tensor.view((2, 3)),
    "view of a type": lambda tensor: tensor.view(torch.int32),
}


class Seen(TorchDispatchMode):
    """A mode of the program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(0, 2, kernels="cpu") as simulation:
        yield simulation


@pytest.fixture
def dispatched(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators that the simulation runs."""
    names: list[str] = []
    original = type(simulation.mode)._view

    def noted(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
        names.append(func._schema.name)
        return original(self, func, args, kwargs)

    monkeypatch.setattr(type(simulation.mode), "_view", noted)
    return names


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_as_on_the_host_and_passes_by(name: str, dispatched: list[str]) -> None:
    on_host, on_device = torch.arange(6.0), torch.arange(6.0, device=DEVICE)
    seen, expected = VIEWS[name](on_device), VIEWS[name](on_host)
    assert (seen.shape, seen.stride(), seen.dtype) == (expected.shape, expected.stride(), expected.dtype)
    assert seen.storage_offset() == expected.storage_offset()
    assert seen.untyped_storage()._cdata == on_device.untyped_storage()._cdata
    assert {"aten::slice", "aten::view"} & {*dispatched} == ({"aten::slice"} if name == "slice" else set())
    assert seen.tolist() == expected.tolist()


def test_a_view_takes_part_in_a_backward(simulation: Simulation) -> None:
    parameter = torch.rand(6, device=DEVICE, requires_grad=True)
    (parameter * 2).narrow(0, 2, 3).view(3, 1)[0:2].sum().backward()
    assert parameter.grad is not None
    assert parameter.grad.shape == (6,)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_a_weight_makes_its_values_unknown(name: str, simulation: Simulation) -> None:
    zeros = torch.zeros(6, device=DEVICE)
    assert simulation.mode.known.contents(zeros) is not None
    VIEWS[name](torch.nn.Parameter(zeros))
    assert simulation.mode.known.contents(zeros) is None


@pytest.mark.parametrize("name", VIEWS)
def test_a_mode_of_the_program_sees_each_view(name: str, simulation: Simulation) -> None:
    tensor = torch.rand(6, device=DEVICE)
    with Seen() as seen:
        VIEWS[name](tensor)
    assert seen.names


def test_a_bound_that_is_a_tensor_is_asked_for(simulation: Simulation) -> None:
    tensor, bound = torch.rand(6, device=DEVICE), torch.tensor(4, device=DEVICE)
    assert tensor[:bound].shape == tensor.narrow(0, torch.tensor(1, device=DEVICE), 4).shape == (4,)
    assert tensor[1:bound].shape == (3,)


@pytest.mark.parametrize("as_one", [False, True])
def test_a_size_that_is_a_tensor_of_the_card_is_read(simulation: Simulation, *, as_one: bool) -> None:
    """As Mask2Former gives them, out of its table of the levels' sizes."""
    height, width = torch.tensor([4, 6], device=DEVICE)
    values = torch.zeros(24, device=DEVICE)
    found = values.view((height, width)) if as_one else values.view(height, width)
    assert (found.shape, values.narrow(0, 2, width).shape) == ((4, 6), (6,))


@pytest.mark.parametrize("source", ["weights", "known", "narrowed", "fewer"])
def test_a_copy_counts_as_one_that_autograd_records(source: str, simulation: Simulation) -> None:
    sources = {
        "weights": torch.rand(6, device=DEVICE),
        "known": torch.arange(6.0, device=DEVICE),
        "narrowed": torch.rand(8, device=DEVICE).narrow(0, 1, 6),
        "fewer": torch.rand(1, device=DEVICE).expand(6),
    }
    figures, contents = [], []
    for recorded in (True, False):
        target = torch.zeros(6, device=DEVICE)
        simulation.mode.begin()
        with torch.set_grad_enabled(recorded):
            assert target.copy_(sources[source]) is target
        reading = simulation.mode.end()
        figures.append((reading.op_launches, reading.moved_bytes, reading.copied_bytes))
        known = simulation.mode.known.contents(target)
        contents.append(None if known is None else known.tolist())
    assert figures[0] == figures[1]
    assert contents[0] == contents[1] == ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0] if source == "known" else None)


@pytest.mark.parametrize("elsewhere", [False, True])  # a tensor without bytes
def test_a_copy_on_a_card_passes_by_and_counts_alike(elsewhere: bool) -> None:
    with Simulation(0, 2) as simulation, attached("meta", simulation.mode, world_size=2):
        dispatched: list[None] = []
        target, source = (torch.rand(6, device="cuda") for _ in range(2))
        beside = torch.rand(6, device="meta") if elsewhere else None
        simulation.mode.begin()
        simulation.mode.working = lambda: dispatched.append(None)
        with torch.no_grad():
            target.copy_(source)
        reading = simulation.mode.end()
        del beside
    assert len(dispatched) == elsewhere
    assert (reading.op_launches, reading.moved_bytes, reading.copied_bytes) == (1, 48, 0)


def test_a_number_is_no_sequence_to_torch(simulation: Simulation) -> None:
    assert torch.tensor([torch.tensor(3.0), 4]).tolist() == [3.0, 4.0]


def test_a_copy_of_another_shape_is_refused(simulation: Simulation) -> None:
    with torch.no_grad(), pytest.raises(RuntimeError):
        torch.rand(6, device=DEVICE).copy_(torch.rand(5, device=DEVICE))


def test_a_copy_of_inference_is_counted(simulation: Simulation) -> None:
    simulation.mode.begin()
    with torch.inference_mode():
        torch.empty(6, device=DEVICE).copy_(torch.rand(6, device=DEVICE))
    assert simulation.mode.end().op_launches == 2


def test_a_copy_into_what_a_backward_needs_is_refused(simulation: Simulation) -> None:
    needed = torch.rand(6, device=DEVICE)
    product = torch.rand(6, device=DEVICE, requires_grad=True) * needed
    with torch.no_grad():
        needed.copy_(torch.rand(6, device=DEVICE))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_afterwards_torch_is_as_it_was() -> None:
    names = ("narrow", "view", "copy_")
    before = [getattr(torch.Tensor, name) for name in names]
    with Simulation(0, 2):
        assert all(getattr(torch.Tensor, name) is not was for name, was in zip(names, before))
    assert [getattr(torch.Tensor, name) for name in names] == before


def test_what_torch_makes_to_find_a_shape_reserves_nothing(simulation: Simulation) -> None:
    simulation.mode.begin()
    with FakeTensorMode():
        shape = torch.empty_strided((1024, 1024), (1024, 1), device=DEVICE)
        assert (shape @ shape).shape == (1024, 1024)
    reading = simulation.mode.end()
    assert (reading.device_peak_bytes, reading.reserved_peak_bytes, reading.op_launches) == (0, 0, 0)
