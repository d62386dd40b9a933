"""The whole weights that a rank's tensors are pieces of, by name, however they are divided: not at all (DDP, one process),
as DTensors (FSDP2, tensor parallelism, both), or flattened and cut (FSDP1).

A tensor of the shape of a parameter, such as its gradient or its optimizer state, has the same pieces.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Placement

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

    def takes(self, values: torch.Tensor) -> bool:
        """Return True if the rank's tensor fits there."""
        if self.count is not None:
            return values.numel() >= self.at + self.count
        ends = [begin + size for begin, size in zip(self.start, values.shape)]
        return values.dim() == len(self.shape) and all(end <= size for end, size in zip(ends, self.shape))

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


@dataclass(frozen=True)
class Summand:
    """A tensor is one summand of its piece: of ``of`` ranks, this one is number ``number``. ``is_mean``: of their mean."""

    number: int
    of: int
    is_mean: bool


#: The pieces of a gradient, and which summand of them it is; None: all of them.
GradientPlace = tuple[tuple[Piece, ...], Summand | None]


@dataclass
class Wholes:
    """Whole tensors by name, put together from ranks' pieces."""

    values: dict[str, torch.Tensor] = field(default_factory=dict)
    _added: set[object] = field(default_factory=set)

    def add(self, pieces: Sequence[Piece], values: torch.Tensor, summand: Summand | None = None) -> None:
        """Add a rank's tensor, or a summand of it. Raise UnknownDivision."""
        for piece in pieces:
            if piece.name not in self.values:
                self.values[piece.name] = torch.zeros(piece.shape, dtype=values.dtype)
            if not piece.takes(values):
                raise UnknownDivision(f"a rank's part of {piece.name} does not fit where it should be")
            if summand is None:
                piece.put(values, self.values[piece.name])
            elif (place := (piece, summand.number)) not in self._added:
                self._added.add(place)
                own = torch.zeros_like(self.values[piece.name])
                piece.put(values, own)
                self.values[piece.name] += own / summand.of if summand.is_mean else own


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


def local_part(tensor: Any) -> torch.Tensor:
    """Return this rank's part of a tensor."""
    part: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def local_values(tensor: Any) -> torch.Tensor:
    """Return a copy of this rank's part of a tensor, on the host."""
    local = local_part(tensor)
    if local.is_sparse:
        local = local.to_dense()
    return local.detach().cpu().clone()


def _of_parameter(name: str, parameter: Any) -> Weight:
    shape = tuple(parameter.shape)
    if not hasattr(parameter, "to_local"):
        return Weight(parameter, (Piece(name, shape, (0,) * len(shape)),), is_divided=False)
    if any(one.is_partial() for one in parameter.placements):
        raise UnknownDivision(f"{name} is a sum over ranks")
    size, start = _box(shape, parameter.device_mesh, parameter.placements)
    if size != tuple(parameter.to_local().shape):
        raise UnknownDivision(f"of {name}, a rank has {list(parameter.to_local().shape)}, and should have {list(size)}")
    return Weight(parameter, (Piece(name, shape, start),), is_divided=True)


def gradient_place(weight: Weight) -> GradientPlace:
    """Return the place of a weight's gradient, which may be divided in another way than the weight. Raise
    UnknownDivision."""
    gradient, pieces = weight.parameter.grad, weight.pieces
    if not hasattr(gradient, "to_local"):
        return pieces, None
    _, start = _box(pieces[0].shape, gradient.device_mesh, gradient.placements)
    here = (Piece(pieces[0].name, pieces[0].shape, start),)
    dims = [dim for dim, one in enumerate(gradient.placements) if one.is_partial()]
    if not dims:
        return here, None
    kinds = {gradient.placements[dim].reduce_op for dim in dims}
    if kinds not in ({"sum"}, {"avg"}):
        raise UnknownDivision(f"gradients are joined by their {' and '.join(sorted(kinds))}")
    mesh, number, of = gradient.device_mesh, 0, 1
    for dim in dims:
        number, of = number * mesh.size(dim) + mesh.get_coordinate()[dim], of * mesh.size(dim)
    return here, Summand(number, of, kinds == {"avg"})


def _box(
    shape: tuple[int, ...], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        from torch.distributed.tensor import _utils
    except ImportError:  # before torch 2.5
        from torch.distributed._tensor import _utils  # type: ignore[no-redef]
    size, start = _utils.compute_local_shape_and_global_offset(shape, mesh, placements)
    if any(not _is_run(one, shape, mesh, placements) for one in range(len(shape))):
        raise UnknownDivision(
            "a rank's part of a weight is several pieces of it, as of layers that are packed into one"
        )
    return tuple(size), tuple(start)


def _is_run(dim: int, shape: tuple[int, ...], mesh: DeviceMesh, placements: Sequence[Placement]) -> bool:
    """Return True if what the rank has along a dimension lies in one run of the whole."""
    here = torch.arange(shape[dim])
    for at, placement in enumerate(placements):
        if getattr(placement, "dim", None) not in (dim, dim - len(shape)):
            continue
        parts = here.chunk(getattr(placement, "split_factor", 1) or 1)
        own = [part.chunk(mesh.size(at)) for part in parts]
        here = torch.cat(
            [chunks[mesh.get_coordinate()[at]] for chunks in own if mesh.get_coordinate()[at] < len(chunks)]
            or [here[:0]]
        )
    return bool((here.diff() == 1).all())


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
