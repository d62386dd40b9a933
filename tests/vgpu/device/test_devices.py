"""What a program calls cuda is the card, however it says so; what it puts on meta has no bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu import attaching  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.ledger import DEVICE  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402
from vgpu.sim import Simulation, SimulationError  # noqa: E402

WAYS: dict[str, Callable[[], Any]] = {
    "a name": lambda: torch.ones(1024, device="cuda"),
    "a name with an index": lambda: torch.ones(1024, device="cuda:0"),
    "a device": lambda: torch.ones(1024, device=torch.device("cuda", 0)),
    "an index": lambda: torch.ones(1024, device=0),
    "to, a name": lambda: torch.ones(1024).to("cuda"),
    "to, an index": lambda: torch.ones(1024).to(0),
    "to, by keyword": lambda: torch.ones(1024).to(device="cuda", dtype=torch.float32),
    "to, as another": lambda: torch.ones(1024).to(torch.empty(1, device="cuda")),
    "cuda": lambda: torch.ones(1024).cuda(),
    "cuda, an index": lambda: torch.ones(1024).cuda(0, non_blocking=True),
    "from data": lambda: torch.tensor([0.0] * 1024, device="cuda"),
    "a legacy type": lambda: torch.cuda.FloatTensor(1024),
    "type": lambda: torch.ones(1024).type("torch.cuda.FloatTensor"),
    "a generator": lambda: torch.randn(1024, device="cuda", generator=torch.Generator(device="cuda").manual_seed(1)),
    "like another": lambda: torch.zeros_like(torch.empty(1024, device="cuda")),
    "a module": lambda: torch.nn.Linear(1024, 1, bias=False).cuda().weight,
    "a module, to": lambda: torch.nn.Linear(1024, 1, bias=False).to("cuda").weight,
    "a module, to, an index": lambda: torch.nn.Linear(1024, 1, bias=False).to(0).weight,
    "a module, to, an index by keyword": lambda: torch.nn.Linear(1024, 1, bias=False).to(device=0).weight,
    "a module's argument": lambda: torch.nn.Linear(1024, 1, bias=False, device="cuda").weight,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_say_cuda_is_the_card(way: str, books: Books) -> None:
    before = torch.cuda.memory_allocated()
    tensor = WAYS[way]()
    assert (str(tensor.device), tensor.is_cuda, tensor.is_meta, tensor.get_device()) == ("cuda:0", True, False, 0)
    assert torch.cuda.memory_allocated() - before == 4096


def test_a_default_device_and_a_context_make_tensors_on_the_card(books: Books) -> None:
    with torch.device("cuda"):
        inside = torch.ones(1024)
    torch.set_default_device("cuda:0")
    try:
        default = torch.ones(1024)
    finally:
        torch.set_default_device(None)
    assert (inside.is_cuda, default.is_cuda, torch.ones(1).is_cuda) == (True, True, False)
    assert torch.cuda.memory_allocated() == 8192


def test_what_a_program_puts_on_meta_has_no_bytes_and_says_so(books: Books) -> None:
    with torch.device("meta"):
        model = torch.nn.Linear(512, 512)
    half = model.to(torch.bfloat16)
    assert all(parameter.is_meta and str(parameter.device) == "meta" for parameter in half.parameters())
    assert torch.cuda.memory_allocated() == 0
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        half.to("cuda")
    assert next(half.to_empty(device="cuda").parameters()).is_cuda
    card = torch.ones(4, device="cuda")
    assert card.to("meta").is_meta
    assert card.is_cuda


def test_data_that_came_from_the_host_have_a_version_of_their_own(books: Books) -> None:
    """As in torch: FSDP writes to the memory that a flat parameter's data are a part of, and views of these train on."""
    flat = torch.nn.Parameter(torch.zeros(32))
    gathered = torch.zeros(64, device="cuda")
    flat.data = gathered[:32]
    views = torch.split(flat, [16, 16])
    with torch.no_grad():
        gathered.fill_(1)
    torch.nn.functional.linear(torch.ones(2, 4, device="cuda"), views[0].view(4, 4)).sum().backward()
    assert flat._version == 0


@pytest.mark.parametrize("elements", [0, 1024])
def test_a_storage_that_a_program_makes_on_meta_has_no_bytes(books: Books, elements: int) -> None:
    """As lazy loading of a checkpoint makes them, which are empty at first (``lightning.fabric.utilities.load``)."""
    before = books.ledger.live[DEVICE]
    storage = torch.storage.TypedStorage(elements, dtype=torch.bfloat16, device="meta")
    rebuilt = torch._utils._rebuild_tensor_v2(storage, 0, (32, 32), (32, 1), False, {})
    assert (rebuilt.shape, str(rebuilt.device)) == ((32, 32), "meta")
    assert books.ledger.live[DEVICE] == before
    card = torch.zeros(8, device="cuda")
    shared = torch.empty(0, device="cuda").set_(card.untyped_storage(), 4, (4,), (1,))
    assert str(shared.device) == "cuda:0"


@pytest.mark.parametrize("watched", [False, True])
def test_code_in_backward_sees_the_card(watched: bool, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    if watched:  # as `steps.StepWatch` does it
        original = torch.autograd.backward
        monkeypatch.setattr(
            torch.autograd, "backward", functools.wraps(original)(lambda *args, **kw: original(*args, **kw))
        )
    seen: list[str] = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            seen.extend([str(gradient.device), str(torch.empty(1, device="cuda").device)])
            return gradient

    x = torch.ones(3, device="cuda", requires_grad=True)
    Watched.apply(x).sum().backward()
    torch.autograd.backward(Watched.apply(x).sum())
    torch.autograd.grad(Watched.apply(x).sum(), x)
    assert seen == ["cuda:0"] * 6


def test_data_moves_between_card_and_host_beneath_a_tensor(books: Books) -> None:
    parameter = torch.nn.Parameter(torch.zeros(1 << 20, device="cuda"))
    graph = parameter * 1
    host = torch.zeros(1 << 20)
    parameter.data = host
    assert (parameter.device.type, parameter.requires_grad, parameter.is_leaf) == ("cpu", True, True)
    del graph
    assert torch.cuda.memory_allocated() == 0
    parameter.data = parameter.data.to("cuda")
    assert parameter.is_cuda


@pytest.mark.parametrize("shape", [(4,), (4, 3), ()])
def test_a_gradient_reaches_a_parameter_whose_data_moved_after_its_forward(
    books: Books, shape: tuple[int, ...]
) -> None:
    parameter = torch.nn.Parameter(torch.zeros(shape, device="cuda"))
    for _ in range(2):
        loss = (parameter * 2).sum()
        parameter.grad = None
        parameter.data = torch.zeros(shape)
        parameter.data = torch.zeros(shape, device="cuda")
        loss.backward()
        assert parameter.grad is not None
        assert (parameter.grad.is_cuda, tuple(parameter.grad.shape)) == (True, shape)


def test_a_gradient_stays_where_it_is_when_the_data_move(books: Books) -> None:
    parameter = torch.nn.Parameter(torch.zeros(8, device="cuda"))
    (parameter * 2).sum().backward()
    parameter.data = torch.zeros(2)  # a shard of it, as FSDP's
    gradient = parameter.grad
    assert gradient is not None
    assert (gradient.is_cuda, gradient.shape, parameter.device.type) == (True, (8,), "cpu")
    parameter.grad = None
    assert parameter.grad is None
    parameter.grad = torch.ones(2)
    assert parameter.grad.device.type == "cpu"


def test_another_ranks_card_is_refused_by_name(books: Books) -> None:
    with pytest.raises(SimulationError, match="cuda:1 is another rank's card") as refused:
        torch.ones(1, device="cuda:1")
    assert "test_devices.py" in str(refused.value)


def test_pinned_memory_is_the_hosts_and_known_as_such(books: Books) -> None:
    pinned = torch.ones(1 << 20).pin_memory()
    assert (pinned.is_pinned(), torch.ones(4).is_pinned(), pinned.device.type) == (True, False, "cpu")
    assert torch.cuda.memory_allocated() == 0


PINNED: dict[str, Callable[[], Any]] = {
    "empty": lambda: torch.empty(8, pin_memory=True),
    "randint": lambda: torch.randint(0, 9, (8,), device="cpu", pin_memory=True),
    "tensor": lambda: torch.tensor([1, 2], pin_memory=True),
    "full_like": lambda: torch.full_like(torch.ones(3), 2.0, pin_memory=True),
    "new_empty": lambda: torch.ones(2).new_empty(4, pin_memory=True),
}


@pytest.mark.parametrize("way", PINNED)
def test_what_is_made_pinned_is_the_hosts_and_known_as_such(way: str, books: Books) -> None:
    """torch itself refuses it on a machine without a GPU."""
    made = PINNED[way]()
    assert (made.is_pinned(), made.device.type) == (True, "cpu")
    assert torch.cuda.memory_allocated() == 0


def test_on_cpu_ranks_what_is_made_pinned_is_a_tensor() -> None:
    with TorchMeter("cpu", trace=True) as meter, attaching.attached("cpu", meter):
        assert torch.zeros(4, pin_memory=True).cuda().sum() == 0


def test_on_cpu_ranks_the_card_is_the_hosts_memory() -> None:
    with TorchMeter("cpu", trace=True) as meter, attaching.attached("cpu", meter):
        tensor = torch.full((1024,), 3.0, device="cuda")
        assert float(tensor.sum()) == 3072.0
        assert torch.cuda.memory_allocated() >= 4096


def test_everything_is_put_back() -> None:
    before = {name: getattr(torch.cuda, name) for name in dir(torch.cuda)}
    outside = (torch.Generator, torch.load, torch.set_autocast_enabled, torch.distributed.init_process_group)
    with Simulation(0, 2) as simulation, attaching.attached("meta", simulation.mode, world_size=2):
        assert torch.cuda.is_available()
    assert {name: getattr(torch.cuda, name) for name in dir(torch.cuda)} == before
    assert (
        torch.Generator, torch.load, torch.set_autocast_enabled, torch.distributed.init_process_group
    ) == outside  # fmt: skip


def test_contexts_of_torch_know_the_constructors_before_and_after() -> None:
    for _ in range(2):
        with Simulation() as simulation, attaching.attached("meta", simulation.mode), torch.device("cuda"):
            assert torch.arange(4).device.type == "cuda"
        with torch.device("meta"):
            assert {torch.arange(4).device.type, torch.tensor([1.0]).device.type} == {"meta"}


def test_a_module_with_columns_of_a_weight_moves_and_keeps_its_parameter(books: Books) -> None:
    """As tensor parallelism cuts them from a checkpoint, and ``load_state_dict(assign=True)`` leaves them."""
    layer = torch.nn.Linear(8, 8, bias=False)
    layer.load_state_dict({"weight": torch.ones(8, 16)[:, :8]}, assign=True)
    weight = layer.weight
    assert not weight.is_contiguous()
    assert layer.to("cuda").weight is weight
    assert weight.is_cuda
