"""The whole weights that a rank's tensors are pieces of, by name, however they are divided: not at all (DDP, one process),
as DTensors (FSDP2), or flattened and cut (FSDP1).

A tensor of the shape of a parameter, such as its gradient or its optimizer state, has the same pieces.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

#: What wrappers put into the names of the weights below them.
_WRAPPERS = frozenset(("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"))


class UnknownDivision(Exception):
    """Weights are divided in a way that is not known here; one line says how."""


@dataclass(frozen=True)
class Piece:
    """A piece of the weight ``name``, which is ``shape`` when whole.

    A box of it begins at ``start``. A run of it, flattened, begins at the one number of ``start``, and is ``count`` numbers
    of the rank's tensor, from ``at`` on.
    """

    name: str
    shape: tuple[int, ...]
    start: tuple[int, ...]
    at: int = 0
    count: int | None = None  #: None: a box

    @property
    def is_whole(self) -> bool:
        """Return True if the rank's tensor is all of the weight, for all that its place says."""
        return self.count is None and not any(self.start)

    def put(self, values: torch.Tensor, whole: torch.Tensor) -> None:
        """Copy the rank's tensor to its place in the whole weight."""
        if self.count is not None:
            flat = whole.view(-1)
            flat[self.start[0] : self.start[0] + self.count] = values.reshape(-1)[self.at : self.at + self.count]
        elif values.dim():
            whole[tuple(slice(begin, begin + size) for begin, size in zip(self.start, values.shape))] = values
        else:
            whole.copy_(values)


@dataclass(frozen=True)
class Weight:
    """A tensor that a rank trains, or holds frozen, and its pieces: one, or those that FSDP1 has flattened into it."""

    parameter: Any
    pieces: tuple[Piece, ...]
    is_divided: bool  #: among ranks


@dataclass
class Wholes:
    """Whole tensors by name, put together from ranks' pieces."""

    values: dict[str, torch.Tensor] = field(default_factory=dict)

    def add(self, pieces: Sequence[Piece], values: torch.Tensor) -> None:
        """Add a rank's tensor."""
        for piece in pieces:
            if piece.name not in self.values:
                self.values[piece.name] = torch.zeros(piece.shape, dtype=values.dtype)
            piece.put(values, self.values[piece.name])


def clean_name(name: str) -> str:
    """Return a weight's name without those of wrappers."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def is_wrapper(module: object) -> bool:
    """Return True for a module whose name is not in those of the weights below it."""
    return any(hasattr(module, name) for name in _WRAPPERS)


def unwrapped(root: Any) -> Any:
    """Return the module within DistributedDataParallel; any other module itself."""
    return root.module if isinstance(root, torch.nn.parallel.DistributedDataParallel) else root


def flat_handle(module: Any) -> Any:
    """Return what manages the flat weights of a module of FSDP1; None for any other module."""
    return vars(module).get("_handle") if hasattr(module, "_fsdp_wrapped_module") else None


def weights_of(root: Any) -> list[Weight]:
    """Return the weights of a module. Raise UnknownDivision."""
    module = unwrapped(root)
    found: dict[int, Weight] = {}
    for name, sub in module.named_modules():
        if (handle := flat_handle(sub)) is not None:
            for weight in _of_flat(clean_name(name), handle):
                found[id(weight.parameter)] = weight
    for name, parameter in module.named_parameters():
        if (
            id(parameter) in found
            or hasattr(parameter, "_fsdp_flattened")
            or type(parameter).__name__ == "FlatParameter"
        ):
            continue
        found[id(parameter)] = _of_parameter(clean_name(name), parameter)
    return list(found.values())


def local_values(tensor: Any) -> torch.Tensor:
    """Return a copy of this rank's part of a tensor, on the host."""
    local: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    if local.is_sparse:
        local = local.to_dense()
    return local.detach().cpu().clone()


def _of_parameter(name: str, parameter: Any) -> Weight:
    shape = tuple(parameter.shape)
    if not hasattr(parameter, "to_local"):
        return Weight(parameter, (Piece(name, shape, (0,) * len(shape)),), is_divided=False)
    mesh = parameter.device_mesh
    if mesh.size() != torch.distributed.get_world_size() or sum(one.is_shard() for one in parameter.placements) > 1:
        raise UnknownDivision("its weights are divided by more than FSDP (tensor, pipeline or expert parallelism)")
    size, start = _box(shape, mesh, parameter.placements)
    if size != tuple(parameter.to_local().shape):
        raise UnknownDivision(f"of {name}, a rank has {list(parameter.to_local().shape)}, and should have {list(size)}")
    return Weight(parameter, (Piece(name, shape, start),), is_divided=True)


def _box(shape: tuple[int, ...], mesh: object, placements: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        from torch.distributed.tensor import _utils
    except ImportError:  # before torch 2.5
        from torch.distributed._tensor import _utils  # type: ignore[no-redef]
    size, start = _utils.compute_local_shape_and_global_offset(shape, mesh, placements)
    return tuple(size), tuple(start)


def _of_flat(prefix: str, handle: Any) -> Iterator[Weight]:
    """Yield the weights of one unit of FSDP1: its flat one or, with ``use_orig_params``, what each module sees of it."""
    flat = handle.flat_param
    names = [".".join(filter(None, (prefix, clean_name(name)))) for name in flat._fqns]
    shapes = [tuple(shape) for shape in flat._shapes]
    if not handle.uses_sharded_strategy:
        places = _whole_places(flat)
    else:
        places = [(one.in_shard, one.intra_param_start_idx, one.numel_in_shard, one.offset_in_shard)
                  for one in flat._shard_param_infos]  # fmt: skip
    pieces = []
    for name, shape, (is_here, start, count, at) in zip(names, shapes, places):
        if is_here:
            pieces.append(Piece(name, shape, (start,), at, count))
        else:
            pieces.append(Piece(name, shape, (0,), 0, 0))
    if flat._params is None:
        yield Weight(flat, tuple(pieces), is_divided=True)
        return
    for seen, piece in zip(flat._params, pieces):
        yield Weight(seen, (Piece(piece.name, piece.shape, piece.start, 0, piece.count),), is_divided=True)


def _whole_places(flat: Any) -> list[tuple[bool, int, int, int]]:
    """Return the places of weights that are flattened and not cut, in the order of their padded sizes."""
    places, at = [], 0
    is_padding = iter(flat._is_padding_mask)
    sizes = iter(flat._numels_with_padding)
    for shape in flat._shapes:
        for size, padding in zip(sizes, is_padding):
            if not padding:
                places.append((True, 0, math.prod(shape), at))
                at += size
                break
            at += size
    return places


def numbered_groups(optimizer: Any, weights: Sequence[Weight]) -> list[tuple[dict[str, Any], list[int]]] | None:
    """Return the options of each of an optimizer's groups, with the numbers of its parameters among ``weights``; None if it
    steps a parameter that is not among them."""
    numbers = {id(weight.parameter): number for number, weight in enumerate(weights)}
    groups = []
    for group in optimizer.param_groups:
        if any(id(parameter) not in numbers for parameter in group["params"]):
            return None
        options = {name: value for name, value in group.items() if name != "params"}
        groups.append((options, [numbers[id(parameter)] for parameter in group["params"]]))
    return groups
