"""What torch before 2.5 lacks has the shapes that later ones have."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from vgpu.sim import Simulation, meta_kernels  # noqa: E402
from vgpu.sim.errors import SimulationError  # noqa: E402

aten = torch.ops.aten


def _geometry(tensors: object) -> list[tuple[object, ...]]:
    assert isinstance(tensors, tuple)
    return [(tensor.shape, tensor.stride(), tensor.dtype, tensor.device.type) for tensor in tensors]


def _inputs(dtype: torch.dtype) -> list[torch.Tensor]:
    """Rows and a value's head size that are no multiples of 32, and fewer keys than rows."""
    return [torch.empty(2, 4, *size, dtype=dtype, device="meta") for size in ((70, 64), (50, 64), (50, 40))]


@pytest.mark.parametrize("is_trained", [True, False])
def test_efficient_attention_is_torchs_own(is_trained: bool) -> None:
    inputs = _inputs(torch.float32)
    own = meta_kernels._efficient_attention(*inputs, None, is_trained)
    theirs = aten._scaled_dot_product_efficient_attention(*inputs, None, is_trained)
    assert _geometry(own) == _geometry(theirs)


def test_flash_attention_holds_as_much_as_torchs_own() -> None:
    query, key, _ = _inputs(torch.float16)
    own = meta_kernels._flash_attention(query, key, key)
    theirs = aten._scaled_dot_product_flash_attention(query, key, key)
    assert _geometry(own[:2]) == _geometry(theirs[:2])
    assert own[4:6] == theirs[4:6] == (70, 50)


@pytest.mark.parametrize("name", ["_foreach_addcdiv", "_foreach_addcmul"])
def test_what_an_optimizer_does_to_many_tensors_has_the_shapes_of_torchs_own(name: str) -> None:
    many = [torch.empty(3, 5, device="meta"), torch.empty(7, dtype=torch.bfloat16, device="meta")]
    own = meta_kernels._for_each(many, many, many, [1.0, 2.0])
    theirs = getattr(aten, name).ScalarList(many, many, many, [1.0, 2.0])
    assert _geometry(tuple(own)) == _geometry(tuple(theirs))
    assert meta_kernels._for_each_in_place(many, many, many, [1.0, 2.0]) is getattr(aten, f"{name}_").ScalarList(
        many, many, many, [1.0, 2.0]
    )


@pytest.mark.parametrize("dim", [0, 1])
def test_the_gradients_of_weight_norm_are_those_of_torchs_own(dim: int) -> None:
    shape = [3, 1] if dim == 0 else [1, 5]
    inputs = [torch.randn(*size) for size in ([3, 5], [3, 5], shape, shape)]
    theirs = aten._weight_norm_interface_backward(*inputs, dim)
    own = meta_kernels._weight_norm_backward(*(each.to("meta") for each in inputs), dim)
    assert [(one.shape, one.stride(), one.dtype) for one in own] == [
        (one.shape, one.stride(), one.dtype) for one in theirs
    ]


@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_weight_norm_interface_backward"])
def test_this_torch_or_we_have_a_meta_kernel(name: str) -> None:
    assert torch._C._dispatch_has_kernel_for_dispatch_key(
        f"aten::{name}", "Meta"
    ) or torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CompositeExplicitAutograd")


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 5, 3)])
def test_a_factorization_has_the_geometry_of_torchs_own(shape: tuple[int, ...]) -> None:
    own, theirs = (torch.geqrf(torch.randn(*shape).to(device)) for device in ("meta", "cpu"))
    assert [(one.shape, one.stride()) for one in own] == [(one.shape, one.stride()) for one in theirs]


@pytest.mark.parametrize(("rows", "right"), [(5, (4,)), (3, (4,)), (5, (1,))])
def test_least_squares_has_the_shapes_of_torchs_own(rows: int, right: tuple[int, ...]) -> None:
    given = torch.randn(2, rows, 3), torch.randn(2, rows, *right)
    own, theirs = (
        torch.linalg.lstsq(*(each.to(device) for each in given), driver="gels") for device in ("meta", "cpu")
    )
    assert [(one.shape, one.dtype) for one in own] == [(one.shape, one.dtype) for one in theirs]


def test_samples_of_distributions_have_the_shapes_of_torchs_own() -> None:
    counts, chance = torch.full((3, 4), 5.0, device="meta"), torch.empty(3, 4, device="meta")
    assert torch.binomial(counts, chance).shape == (3, 4)
    assert torch.distributions.Dirichlet(torch.empty(3, 4, device="meta"), validate_args=False).sample().shape == (3, 4)


def test_an_orthogonal_layer_on_the_host_keeps_its_base_in_sim() -> None:
    with Simulation():
        layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 1024, bias=False))
        assert layer.parametrizations.weight[0].base.shape == (1024, 1024)
        layer.to(Simulation.device)(torch.randn(2, 4, device=Simulation.device)).sum().backward()
        assert layer.parametrizations.weight.original.grad.shape == (1024, 4)


def test_what_has_no_shape_on_the_host_is_no_answer_that_a_program_catches() -> None:
    with Simulation(), pytest.raises(SimulationError, match=r"aten\.\w+.* has no meta kernel"):
        torch.histogram(torch.randn(1 << 20), 8)
