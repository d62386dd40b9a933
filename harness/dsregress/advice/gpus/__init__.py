"""GPUs: a card's memory and its peak rates. Figures and sources are data: catalogue.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from dsregress.errors import no_such

_GIB = 1 << 30
_MIB = 1 << 20
#: The largest difference between the totals by nvidia-smi and by torch, over the cards with both.
_KEPT_BY_DRIVER_MIB = 768


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of GPU."""

    name: str
    cuda_name: str  #: as torch calls it
    compute_capability: str  #: ``8.0``
    multiprocessors: int
    memory_mib: int  #: the total by nvidia-smi
    tflops: dict[str, float]  #: dtype -> peak of dense matrix products, 1e12 per second
    memory_gbs: float  #: bandwidth of its memory, 1e9 bytes per second
    link_gbs: float  #: bandwidth to the other GPUs of its node, 1e9 bytes per second, per direction
    sources: tuple[str, ...]
    lacks: dict[str, str] = {}  #: dtype that no unit of the card computes in -> the source that says so
    usable_gib: float | None = None  #: the total by torch, if it is known
    #: the share of the bf16 peak that the fastest matrix product reaches; for a card not measured, about that of the others
    matmul_share: float = 0.8

    @property
    def usable_bytes(self) -> int:
        """Return the most that a process can have, its CUDA context included."""
        if self.usable_gib is not None:
            return int(self.usable_gib * _GIB)
        return (self.memory_mib - _KEPT_BY_DRIVER_MIB) * _MIB

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
    table = msgspec.toml.decode((Path(__file__).parent / "catalogue.toml").read_bytes(), type=dict[str, dict[str, Any]])
    return {name: msgspec.convert({"name": name, **fields}, Card) for name, fields in table.items()}


def card(name: str, where: str = "--gpu") -> Card:
    """Return the card called ``name``: see `known_card`. Raise UsageError with the known names if there is none; ``where``
    is the option, or other place, that named it."""
    found = known_card(name)
    if found is None:
        raise no_such("GPU", name, catalogue(), where=where)
    return found


def known_card(name: str) -> Card | None:
    """Return the card called ``name``, in any spelling: ``rtx 3090``, ``A100-80GB``, and ``H100`` if only one kind has that
    prefix; None if there is no such card. Results of other versions may name cards that are unknown here."""
    known = {_spelling(each): found for each, found in catalogue().items()}
    spelled = _spelling(name)
    if spelled in known:
        return known[spelled]
    longer = [found for each, found in known.items() if each.startswith(spelled)]
    if spelled and len(longer) == 1:
        return longer[0]
    return None


def named_card(parameters: Mapping[str, Any]) -> Card | None:
    """Return the card that the parameters of a stored cell name; None if they name none, or an unknown one."""
    return known_card(str(parameters.get("gpu") or ""))


def _spelling(name: str) -> str:
    """Return a name in lower case, without separators and the unit's B."""
    return re.sub(r"(?<=\dg)b$", "", re.sub(r"[\s_-]", "", name.lower()))
