"""The known cards, and what a program finds of one."""

from __future__ import annotations

import pytest

from vgpu import card_catalogue
from vgpu.device.card import VirtualCard


def test_a_program_finds_the_card_as_torch_describes_it() -> None:
    assert VirtualCard.of(card_catalogue.named_card("a100 40gb")) == VirtualCard(
        name="NVIDIA A100-SXM4-40GB",
        memory_bytes=int(39.5 * (1 << 30)),
        compute_capability=(8, 0),
        multiprocessors=108,
    )


def test_an_unknown_name_lists_the_known_ones() -> None:
    known = ", ".join(card_catalogue.known_cards())
    with pytest.raises(card_catalogue.UnknownCard, match=f"^no such card: A100; known are {known}$"):
        card_catalogue.named_card("A100")  # several begin so


def test_every_card_has_sources_and_a_program_finds_less_than_the_driver_reports() -> None:
    for name, card in card_catalogue.known_cards().items():
        assert card.name == name
        assert card.sources
        assert 0 < VirtualCard.of(card).memory_bytes < card.memory_mib << 20
