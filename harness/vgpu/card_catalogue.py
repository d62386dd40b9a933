"""The known GPUs: the facts that the virtual one answers with, and the peak rates of each. Standard library only.

Figures and sources are data: card_catalogue.json. Datasheet figures are dense, without structured sparsity.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

_GIB = 1 << 30
_MIB = 1 << 20
#: The largest difference between the totals by nvidia-smi and by torch, over the cards with both.
_KEPT_BY_DRIVER_MIB = 768

_Any = TypeVar("_Any")


class UnknownCard(ValueError):
    """No known card has that name; the message lists the known ones."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """One kind of GPU."""

    name: str
    cuda_name: str  #: as ``torch.cuda.get_device_name`` returns it
    #: ``8.0``; like the multiprocessors from the CUDA C++ Programming Guide and the architectures' white papers
    compute_capability: str
    multiprocessors: int
    memory_mib: int  #: the total by nvidia-smi
    #: dtype -> peak of dense matrix products that accumulate in fp32, 1e12 per second; fp32 without TF32, torch's default
    tflops: Mapping[str, float]
    memory_gbs: float  #: bandwidth of its memory, 1e9 bytes per second
    #: bandwidth to the other GPUs of its node, 1e9 bytes per second, per direction (datasheets add up both)
    link_gbs: float
    sources: tuple[str, ...]
    #: dtype that no unit of the card computes in -> the source that says so; what runs all the same is emulated
    lacks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: the total by torch ("GPU 0 has a total capacity of ..."), the smallest seen; None if none was found
    usable_gib: float | None = None

    @property
    def usable_bytes(self) -> int:
        """Return the most that a process can have, its CUDA context included."""
        if self.usable_gib is not None:
            return int(self.usable_gib * _GIB)
        return (self.memory_mib - _KEPT_BY_DRIVER_MIB) * _MIB


@functools.cache
def known_cards() -> Mapping[str, Card]:
    """Return every known card by its name."""
    table = json.loads((Path(__file__).parent / "card_catalogue.json").read_text(encoding="utf-8"))
    return {name: Card(name=name, **{**facts, "sources": tuple(facts["sources"])}) for name, facts in table.items()}


def find_card(name: str, among: Mapping[str, _Any]) -> _Any | None:
    """Return the value whose key is ``name`` in any spelling: ``rtx 3090``, ``A100-80GB``, and ``H100`` or ``4090`` if only
    one begins, or else ends, like that; None if there is none."""
    known = {_spelling(each): found for each, found in among.items()}
    spelled = _spelling(name)
    if spelled in known:
        return known[spelled]
    longer = [found for each, found in known.items() if each.startswith(spelled)]
    longer = longer or [found for each, found in known.items() if each.endswith(spelled)]
    return longer[0] if spelled and len(longer) == 1 else None


def named_card(name: str) -> Card:
    """Return the card of that name, see `find_card`. Raise UnknownCard if there is none."""
    found = find_card(name, known_cards())
    if found is None:
        raise UnknownCard(f"no such card: {name}; known are {', '.join(known_cards())}")
    return found


def _spelling(name: str) -> str:
    """Return a name in lower case, without separators and the unit's B."""
    return re.sub(r"(?<=\dg)b$", "", re.sub(r"[\s_-]", "", name.lower()))
