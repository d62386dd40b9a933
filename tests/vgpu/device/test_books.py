"""The card's figures: the allocator's rounding, and cuBLAS."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from vgpu.device import card  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.device.card import VirtualCard  # noqa: E402

MIB = 1 << 20
HOPPER, AMPERE = VirtualCard().blas_workspace_bytes, VirtualCard(compute_capability=(8, 0)).blas_workspace_bytes


def test_bytes_are_rounded_as_the_allocator_rounds_them(books: Books) -> None:
    small = torch.empty(1, device="cuda")
    assert torch.cuda.memory_allocated() == 512
    large = torch.empty(477 * 2 * MIB - 341_504, dtype=torch.uint8, device="cuda")  # a bucket of 5e8 bf16 elements
    assert torch.cuda.memory_allocated() == 512 + 477 * 2 * MIB
    assert torch.cuda.memory_reserved() == (477 * 2 + 2) * MIB
    del large
    assert torch.cuda.memory_allocated() == 512
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 2 * MIB
    del small


@pytest.mark.parametrize(
    ("capability", "release", "nbytes"),
    [
        ((9, 0), (2, 4), 32 * MIB),
        ((10, 0), (2, 11), AMPERE),
        ((10, 0), (2, 12), 32 * MIB),
        ((12, 0), (2, 13), 32 * MIB),
        ((8, 9), (2, 13), AMPERE),
    ],
)
def test_workspaces_are_large_on_hopper_and_on_blackwell_from_a_release_on(
    capability: tuple[int, int], release: tuple[int, int], nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card, "_torch_release", lambda: release)
    assert VirtualCard(compute_capability=capability).blas_workspace_bytes == nbytes


def test_the_peak_is_the_programs_own(books: Books) -> None:
    torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.max_memory_allocated() == 8 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()) == (0, 20 * MIB)
    assert torch.cuda.mem_get_info() == (VirtualCard().memory_bytes - 20 * MIB, VirtualCard().memory_bytes)


def test_matrix_products_take_a_workspace_for_each_of_the_two_threads(books: Books) -> None:
    assert (HOPPER, AMPERE) == (33_554_432, 8_519_680)
    weight = torch.ones(8, 8, device="cuda", requires_grad=True)
    product = torch.ones(8, 8, device="cuda") @ weight
    assert torch.cuda.memory_allocated() == HOPPER + 3 * 512
    product.sum().backward()
    product = torch.ones(8, 8, device="cuda") @ weight
    assert torch.cuda.memory_allocated() == 2 * HOPPER + 4 * 512  # weight, its gradient, input, product


@pytest.mark.parametrize(
    ("config", "workspace"),
    [(":4096:8", 32 * MIB), (":4096:2:16:8", 8 * MIB + 128 * 1024), (":16:8", 128 * 1024), ("none", HOPPER)],
)
def test_the_environment_sets_the_size_of_workspaces(
    books: Books, monkeypatch: pytest.MonkeyPatch, config: str, workspace: int
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", config)
    product = torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
    assert torch.cuda.memory_allocated() == workspace + 512
    del product


def test_a_product_on_the_host_takes_no_workspace(books: Books) -> None:
    host = torch.ones(8, 8)
    assert (host.T @ host).device.type == "cpu"
    assert torch.cuda.memory_allocated() == 0


def test_each_stream_has_memory_and_workspaces_of_its_own(books: Books) -> None:
    side = torch.cuda.Stream()
    torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(side):
        torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.max_memory_allocated() == 30 * MIB
    assert torch.cuda.memory_reserved() == 60 * MIB
    torch.cuda.empty_cache()
    one = torch.ones(8, 8, device="cuda")
    kept = [one @ one]
    with torch.cuda.stream(side):
        kept += [one @ one, one @ one]
    assert torch.cuda.memory_allocated() == 2 * HOPPER + 4 * 512
