"""Digests of what modules give, and the first difference of two of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.truth.first_module import ComparedCall, ModuleDifference  # noqa: E402
from dsregress.programs.watch.module_values import ModuleValues, ModuleWatch, tensor_digest  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        out = self.down(torch.relu(self.up(self.norm(x))))
        out += x
        return out


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return {"out": x}


def values_of(
    change: Callable[[Any], None] = lambda model: None, rounded: int | None = None, scale: float = 1
) -> ModuleValues:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(5, 8)
    if rounded is not None:
        torch.manual_seed(rounded)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1 + 1e-7 * (2 * torch.rand_like(weight) - 1))
    change(model)
    with ModuleWatch(model, locates=rounded is None) as watch:
        out = model(x)["out"]
    (scale * out.pow(2).sum()).backward()
    assert watch.values.broken == ""
    return watch.values


def first(change: Callable[[Any], None]) -> ModuleDifference | None:
    moved = [values_of(rounded=seed) for seed in range(1, 4)]
    return ComparedCall(values_of(change), values_of(), moved, 1e-7).first()


@pytest.mark.parametrize("size", [1, 127, 128, 1000, 2**18 + 5, 2**20])
def test_the_distance_of_two_digests_is_that_of_the_tensors(size: int) -> None:
    torch.manual_seed(size)
    one = torch.randn(size)
    for change in (torch.randn(size), torch.full((size,), 0.1), torch.linspace(0, 1, size + 1)[1:]):
        away = (tensor_digest(one) - tensor_digest(one + change))[:-1].norm()
        assert float(away) == pytest.approx(float(((one + change) - one).norm()), rel=0.35)


def test_numbers_that_are_not_finite_are_counted_and_hide_no_other() -> None:
    one = torch.tensor([1.0, float("inf"), float("nan"), 2.0])
    other = torch.tensor([1.0, float("inf"), 5.0, 2.0])
    assert (float(tensor_digest(one)[-1]), float(tensor_digest(other)[-1])) == (2, 1)
    assert torch.equal(tensor_digest(one), tensor_digest(one.clone()))


def test_equal_calls_have_no_difference() -> None:
    assert first(lambda model: None) is None
    assert first(lambda model: model.to(torch.float32)) is None


def scale_output(model: Any) -> None:
    model.layers[1].up.register_forward_hook(lambda module, given, out: 1.01 * out)


def scale_input(model: Any) -> None:
    model.layers[1].down.register_forward_pre_hook(lambda module, given: (1.01 * given[0],))


def scale_gradient(model: Any) -> None:
    model.layers[2].up.register_full_backward_hook(lambda module, into, out: (0.9 * into[0],))


@pytest.mark.parametrize(
    ("change", "module", "is_forward"),
    [(scale_output, "layers.1.up", True), (scale_input, "layers.1", True), (scale_gradient, "layers.2.up", False)],
)
def test_the_first_difference_is_where_it_is_made(change: Callable[[Any], None], module: str, is_forward: bool) -> None:
    found = first(change)
    assert found is not None
    assert (found.module, found.is_forward) == (module, is_forward)
    assert found.called_from.startswith("tests/programs/watch/test_module_values.py:")


def test_a_common_factor_of_all_gradients_is_no_difference_where_it_may_be() -> None:
    scaled, true = values_of(scale=4), values_of()
    assert ComparedCall(scaled, true, [values_of(rounded=1)], 1e-7, is_scaled=True).first() is None
    assert ComparedCall(scaled, true, [values_of(rounded=1)], 1e-7).first() is not None


def test_tensors_that_are_put_before_a_module_are_no_difference() -> None:
    """FSDP2 and ZeRO-3 give a module tensors of their own, for which less comes back than for the caller's."""

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    def put(model: Any) -> None:
        for module in model.modules():
            if module is not model:
                module.register_forward_pre_hook(lambda module, given: (Same.apply(given[0]),))
                module.register_forward_hook(lambda module, given, out: Same.apply(out))

    assert first(put) is None


def test_a_value_that_breaks_ends_the_watch_and_not_the_program() -> None:
    class Breaking(dict[str, Any]):
        def values(self) -> Any:
            raise ValueError("no")

    model = Model()
    model.layers[0].register_forward_hook(lambda module, given, out: Breaking(out=out))
    model.layers[1].register_forward_pre_hook(lambda module, given: (given[0]["out"],))
    with ModuleWatch(model) as watch:
        model(torch.ones(5, 8))["out"].sum().backward()
    assert watch.values.broken == "ValueError: no"
    compared = ComparedCall(watch.values, values_of(), [], 1e-7)
    assert (compared.is_known, compared.first()) == (False, None)
