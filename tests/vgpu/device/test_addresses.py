"""Tensors of the simulated card have addresses, as a GPU's have: of their own blocks, aligned, and used again."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")

from vgpu.device.books import Books  # noqa: E402

MIB = 1 << 20


@pytest.mark.usefixtures("books")
def test_each_tensor_has_its_own_address() -> None:
    first, second = (torch.empty(1000, device="cuda") for _ in range(2))
    assert 0 < first.data_ptr() != second.data_ptr() > 0
    assert abs(second.data_ptr() - first.data_ptr()) == 4096  # rounded to 512 bytes, in one segment
    assert first.data_ptr() % 512 == 0
    assert len({p.data_ptr() for p in torch.nn.Linear(2, 2, device="cuda").parameters()}) == 2


@pytest.mark.usefixtures("books")
def test_a_view_lies_in_its_storage() -> None:
    whole = torch.empty(4, 8, dtype=torch.float16, device="cuda")
    assert whole[1].data_ptr() == whole.data_ptr() + 16
    assert whole.untyped_storage().data_ptr() == whole[1].untyped_storage().data_ptr() == whole.data_ptr()
    assert whole.detach().data_ptr() == torch.nn.Parameter(whole).data_ptr() == whole.data_ptr()


@pytest.mark.usefixtures("books")
def test_what_was_freed_is_used_again() -> None:
    first = torch.empty(3 * MIB, device="cuda")
    address = first.data_ptr()
    del first
    gc.collect()
    assert torch.empty(3 * MIB, device="cuda").data_ptr() == address


@pytest.mark.usefixtures("books")
def test_what_has_no_bytes_has_no_address() -> None:
    storage = (resized := torch.empty(4, device="cuda")).untyped_storage()
    storage.resize_(0)
    assert resized.data_ptr() == storage.data_ptr() == torch.empty(0, device="cuda").data_ptr() == 0
    assert torch.empty(4, device="meta").data_ptr() == 0
    assert torch.empty(4, device="cuda")[:0].data_ptr() == 0
    storage.resize_(16)
    assert resized.data_ptr() > 0


def test_the_host_keeps_its_addresses(books: Books) -> None:
    host = torch.arange(4)
    assert host.data_ptr() == host.untyped_storage().data_ptr() > 0
    assert books.address(host.untyped_storage()) == 0
