"""The effect of an operator on the counts: whether it launches a kernel, its FLOPs, its communication. Needs torch.

Everything is read from the operator itself (its name and schema) or from torch's own registries, once per operator.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import flop_counter

from vgpu.json_tables import decoded_entries, decoded_texts, table_beside
from vgpu.meters import groups

_TABLE = table_beside(__file__)


def _collective(entry: object) -> tuple[str, tuple[int, ...]]:
    match entry:
        case {"kind": str(kind), "payload": [*places]} if all(type(one) is int for one in places):
            return kind, tuple(places)
    raise ValueError(f"not a collective: {entry!r}")


def _functional(entry: object) -> tuple[str, bool]:
    match entry:
        case {"kind": str(kind), "is_result": bool(is_result)}:
            return kind, is_result
    raise ValueError(f"not a functional collective: {entry!r}")


#: Operators of c10d -> (kind as the field calls it, which arguments hold the payload).
#:
#: The payload of a collective is the size that nccl-tests divides by time: the whole message as the largest side of it
#: sees it, so the *output* of an all-gather, the *input* of a reduce-scatter, and the one buffer of the others
#: (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
COLLECTIVES = {name: _collective(entry) for name, entry in decoded_entries(_TABLE["collectives"]).items()}

#: Operators among them that complete when the peer takes part: the meter does not wait for them.
POINT_TO_POINT = ("send", "recv_", "recv_any_source_")

#: Functional collectives, which DTensors use -> (kind, True if the payload is the result, False if the first argument).
FUNCTIONAL = {name: _functional(entry) for name, entry in decoded_entries(_TABLE["functional"]).items()}

#: Namespaces of functional collectives, of newer and of older releases.
_FUNCTIONAL_NAMESPACES = ("_c10d_functional", "c10d_functional")

#: Operators that neither read nor write an element, so that no device launches a kernel for them.
_NO_KERNEL = frozenset(decoded_texts(_TABLE["without_kernel"]))

#: Operators that write elements without reading them.
_OVERWRITES = {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_"}

#: Operators that read no more of their source than they return.
_PICKS = {"embedding", "gather", "index", "index_select", "masked_select"}

#: Operators whose result may be a new storage, although their schema says that it is an argument's.
_ADOPTS = {"lift_fresh", "set_", "resize_", "resize_as_", "data"}


class Traits:
    """The effects of one operator, determined once."""

    __slots__ = (
        "flops", "functional", "group_at", "is_composite", "kind", "launches", "moves", "name", "out_arguments",
        "overwrites", "payload", "picks", "point_to_point", "returns_storage", "written",
    )  # fmt: skip

    def __init__(self, func: torch._ops.OpOverload) -> None:
        schema = func._schema
        #: Made of other operators. It is dispatched whole if autograd takes no part: in inference mode, and in the code that
        #: DTensors run. An operator with its own CPU kernel has one on GPUs too, and consists of others on other devices
        #: only: ``silu_backward``, ``mish_backward``.
        self.is_composite = _has_kernel(func, "CompositeImplicitAutograd") and not _has_kernel(func, "CPU")
        namespace, _, self.name = schema.name.partition("::")
        collective = COLLECTIVES.get(self.name) if namespace == "c10d" else None
        #: The kind of collective, "" for anything else.
        self.kind = collective[0] if collective else ("barrier" if namespace == "c10d" else "")
        self.payload = collective[1] if collective else ()
        #: (kind, is_result) of a functional collective, see `FUNCTIONAL`; None for anything else.
        self.functional = FUNCTIONAL.get(self.name) if namespace in _FUNCTIONAL_NAMESPACES else None
        self.point_to_point = self.name in POINT_TO_POINT
        #: The argument of a collective that is its group or the group's name; None without such an argument.
        self.group_at = next(
            (at for at, a in enumerate(schema.arguments) if a.name == "group_name" or "ProcessGroup" in str(a.type)),
            None,
        )
        #: (position, name) of each argument that it writes to.
        self.written = tuple(
            (position, argument.name)
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        #: Names of its ``out=`` arguments, which it may resize.
        self.out_arguments = tuple(a.name for a in schema.arguments if getattr(a, "is_out", False))
        aliases = [r.alias_info is not None for r in schema.returns]
        is_view = bool(aliases) and all(aliases) and (not self.written or torch.Tag.inplace_view in func.tags)
        #: Kernels that a device launches for it: one, or none for views, for operators that only allocate, and for those
        #: without any tensor (torch queries its libraries through operators).
        tensors = any("Tensor" in str(each.type) for each in (*schema.arguments, *schema.returns))
        no_kernel = is_view or self.name in _NO_KERNEL or namespace in ("prim", "profiler") or not tensors
        self.launches = 0 if no_kernel else 1
        self.flops: Callable[..., int] | None = _flop_formula(func)
        #: True if its time depends on the bytes that it reads and writes, not on FLOPs or links.
        self.moves = bool(self.launches) and self.flops is None and not self.kind and self.functional is None
        self.overwrites = self.name in _OVERWRITES
        self.picks = self.name in _PICKS
        #: True if it can return newly allocated memory.
        adopts = bool(self.out_arguments) or self.name in _ADOPTS
        self.returns_storage = adopts or not (is_view or (self.written and all(aliases)))


def _has_kernel(func: torch._ops.OpOverload, key: str) -> bool:
    found: bool = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
    return found


_TRAITS: dict[Any, Traits] = {}


def traits(func: torch._ops.OpOverload) -> Traits:
    """Return the effects of ``func``, cached."""
    known = _TRAITS.get(func)
    if known is None:
        known = _TRAITS[func] = Traits(func)
    return known


def group_text(what: Traits, args: tuple[Any, ...]) -> str:
    """Return the ranks of a collective's group, abbreviated: ``0-31``, ``0-24/8``, ``0,3,5``; "" if the operator does
    not name it."""
    if what.group_at is None or what.group_at >= len(args):
        return ""
    group = args[what.group_at]
    if isinstance(group, torch.ScriptObject):
        group = torch._C._distributed_c10d.ProcessGroup.unbox(group)
    name = group if isinstance(group, str) else group.group_name  # a later group may have it again, with other ranks
    return _ranks_text(tuple(torch.distributed.get_process_group_ranks(groups.named(name))))


@functools.lru_cache
def _ranks_text(ranks: tuple[int, ...]) -> str:
    steps = {later - earlier for earlier, later in itertools.pairwise(ranks)}
    if len(steps) == 1:
        (step,) = steps
        return f"{ranks[0]}-{ranks[-1]}" + (f"/{step}" if step != 1 else "")
    return ",".join(map(str, ranks))


def payload_bytes(what: Traits, args: tuple[object, ...]) -> int:
    """Return the bytes of one collective, by the convention of `COLLECTIVES`."""
    return sum(t.numel() * t.element_size() for i in what.payload for t in tensors_in(args[i]))


def moved(
    what: Traits, args: tuple[object, ...], kwargs: dict[str, object] | None, out: object
) -> Iterable[torch.Tensor]:
    """Yield the tensors that a kernel reads, then those that it writes. A tensor that it reads and writes is yielded
    twice."""
    written = [args[at] for at, _ in what.written if at < len(args)] if what.written else out
    if what.picks:
        yield from tensors_in(out)
    else:
        yield from tensors_in(args[1:] if what.overwrites else args)
        if kwargs:
            yield from tensors_in(tuple(kwargs.values()))
    yield from tensors_in(written)


def nbytes_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements; if it repeats elements, as after ``expand``, those in memory."""
    nbytes = tensor.numel() * tensor.element_size()
    return nbytes if tensor.is_contiguous() else min(nbytes, tensor.untyped_storage().nbytes())


def tensors_in(value: object) -> Iterable[torch.Tensor]:
    """Yield the tensors in a nest of lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def _flop_formula(func: torch._ops.OpOverload) -> Callable[..., int] | None:
    """Return torch's own formula for an operator. For attention, return the same formula with grouped queries, which
    torch's refuses before 2.10, and with the CPU's kernel, which torch does not count; for matrix products, torch's
    without the dtype of their result, which it takes for a shape."""
    name = func._schema.name.partition("::")[2]
    if name.startswith("_scaled_dot_product_"):
        return _attention_backward_flops if name.endswith("_backward") else _attention_flops
    formula: Callable[..., int] | None = flop_counter.flop_registry.get(func._overloadpacket)
    names = [argument.name for argument in func._schema.arguments]
    if formula is None or "out_dtype" not in names:
        return formula
    return functools.partial(_flops_without, names.index("out_dtype"), formula)


def _flops_without(position: int, formula: Callable[..., int], *args: object, **kwargs: object) -> int:
    return formula(*args[:position], *args[position + 1 :], **{k: v for k, v in kwargs.items() if k != "out_dtype"})


def _attention_flops(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, **__: object) -> int:
    """Return the FLOPs of scores and their product with the values: two matrix products per query head
    (``sdpa_flop_count`` of torch)."""
    return 2 * query.shape[:-1].numel() * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _attention_backward_flops(
    gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, **__: object
) -> int:
    """Return the FLOPs of the scores again, and of the gradients of scores, values, queries and keys
    (``sdpa_backward_flop_count``)."""
    return 2 * query.shape[:-1].numel() * key.shape[-2] * (3 * query.shape[-1] + 2 * value.shape[-1])
