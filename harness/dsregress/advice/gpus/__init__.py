"""GPUs: a card's memory and its peak rates (`vgpu.card_catalogue`), and the share of them that was measured."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from dsregress.errors import no_such
from vgpu import card_catalogue

#: For a card that was not measured: about the share of the others.
_UNMEASURED_SHARE = 0.8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card(card_catalogue.Card):
    """One kind of GPU, for estimates."""

    matmul_share: float  #: the share of the bf16 peak that the fastest matrix product reaches

    def flops(self, dtype: str) -> float | None:
        """Return the peak operations per second in ``dtype`` (bf16, fp16, fp32); None if the card cannot compute in it."""
        peak = self.tflops.get(dtype)
        return None if peak is None else peak * 1e12

    def without(self, dtype: str) -> str:
        """Return ``no bf16 units on this card``; empty if the card computes in ``dtype``, or nothing is known about it."""
        return f"no {dtype} units on this card" if dtype in self.lacks else ""


@cache
def catalogue() -> dict[str, Card]:
    """Return every card by its name."""
    shares = msgspec.toml.decode((Path(__file__).parent / "matmul_shares.toml").read_bytes(), type=dict[str, float])
    return {
        name: Card(**vars(known), matmul_share=shares.get(name, _UNMEASURED_SHARE))
        for name, known in card_catalogue.known_cards().items()
    }


#: Words around a card's name by its driver; of another form factor, PCIe, it is another card.
_OF_DRIVER = re.compile(r"\b(?:NVIDIA|Tesla|GeForce|SXM\d?|HBM\d\w?)\b[ -]*", re.IGNORECASE)


def card(name: str, where: str = "--gpu") -> Card:
    """Return the card called ``name``: see `known_card`. Raise UsageError with the known names if there is none; ``where``
    is the option, or other place, that named it."""
    found = known_card(name)
    if found is None:
        raise no_such("GPU", name, catalogue(), where=where)
    return found


def known_card(name: str) -> Card | None:
    """Return the card called ``name``, in any spelling: see `vgpu.card_catalogue.find_card`, also as torch and nvidia-smi
    print it, ``NVIDIA H100 80GB HBM3``; None if there is no such card. Results of other versions may name cards that are
    unknown here."""
    own = {one.cuda_name.lower(): called for called, one in card_catalogue.known_cards().items()}
    printed = own.get(" ".join(name.lower().split()), _OF_DRIVER.sub("", name))
    return card_catalogue.find_card(printed, catalogue())


def named_card(parameters: Mapping[str, object]) -> Card | None:
    """Return the card that the parameters of a stored cell name; None if they name none, or an unknown one."""
    return known_card(str(parameters.get("gpu") or ""))
