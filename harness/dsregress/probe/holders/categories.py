"""Names of the purposes of memory, and how they are found. Standard library only.

A storage gets its category from what refers to it, never from its size: the adapter names the tensors of the live job
(`holders`), a module that computes has its gathered parameters, a collective has its buffers, and the autograd engine
knows which of its results is the gradient of a parameter. A storage that nothing referred to at the end of a phase gets
the category of all others made at the same place in the framework's own code, if they agree. The last criterion is its
lifetime: what is made in a forward outside the framework and outlives it is an activation, and what does not outlive its
phase is temporary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PARAMETER_SHARDS = "parameter shards"
PARAMETERS = "parameters"  #: whole, on every rank, if the framework does not shard them
GATHERED = "gathered parameters"
GRADIENTS = "gradients"
OPTIMIZER_STATE = "optimizer state"
ACTIVATIONS = "activations"
BUCKETS = "buckets"
TEMPORARY = "temporary"
OTHER = "other"
#: The bytes that a GPU's allocator adds to requested ones: rounding, and remainders that it did not split off.
ROUNDING = "the allocator's rounding"

#: If two categories fit one storage, the one that comes first here holds.
ORDER = (
    PARAMETER_SHARDS,
    PARAMETERS,
    OPTIMIZER_STATE,
    GATHERED,
    GRADIENTS,
    BUCKETS,
    ACTIVATIONS,
    TEMPORARY,
    OTHER,
    ROUNDING,
)

#: Words in an attribute's name -> the category of the tensors in it; the first match wins. ZeRO's optimizers of all
#: releases use these words for their fields.
_WORDS = (
    (("bucket", "ipg", "reduction_stream"), BUCKETS),
    (("grad",), GRADIENTS),
    (("fp32", "master", "hp_param", "state", "exp_avg"), OPTIMIZER_STATE),
    (("fp16", "bit16", "lp_param", "param", "partition"), PARAMETER_SHARDS),
)


def by_name(attribute: str) -> str:
    """Return the category of the tensors in an attribute of this name; `OTHER` if the name is unknown."""
    lowered = attribute.lower()
    return next((category for words, category in _WORDS if any(word in lowered for word in words)), OTHER)


def stronger(known: str | None, other: str) -> str:
    """Return the category of a storage that has been given both."""
    return other if known is None or ORDER.index(other) < ORDER.index(known) else known


def tensors_of(value: Any, is_tensor: Any, depth: int = 4) -> Iterable[Any]:
    """Yield the tensors in a nest of containers and plain objects, at most ``depth`` levels deep."""
    if is_tensor(value):
        yield value
    elif depth == 0 or value is None or isinstance(value, (str, bytes, int, float, type)):
        return
    elif isinstance(value, Mapping):
        for inner in list(value.values()):
            yield from tensors_of(inner, is_tensor, depth - 1)
    elif isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
        for inner in list(value):
            yield from tensors_of(inner, is_tensor, depth - 1)
