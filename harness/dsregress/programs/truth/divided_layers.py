"""Which ranks divide each layer of a model between them: tensor parallelism, by DTensors whose mesh is not FSDP's alone.

These ranks train on the same data and are one rank of plain PyTorch, and the other ranks train on other data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from dsregress.programs.truth.plain_settings import NoTruth
from dsregress.programs.watch.kept_calls import tensors_in
from dsregress.programs.watch.kept_steps import KeptStep
from dsregress.programs.watch.layer_plans import is_divided
from dsregress.programs.watch.weight_pieces import Weight

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def layer_groups(
    root: torch.nn.Module, weights: Sequence[Weight], fsdp_meshes: Iterable[DeviceMesh], ranks: int
) -> list[list[int]]:
    """Return the ranks in groups that divide each layer between them, each group in the order of its parts. Raise NoTruth if
    they are joined otherwise."""
    alone = [[rank] for rank in range(ranks)]
    meshes = _meshes(weight.parameter.device_mesh for weight in weights if hasattr(weight.parameter, "device_mesh"))
    given = _meshes(fsdp_meshes)
    if not is_divided(root):
        if any(mesh.size() != ranks for mesh in meshes):
            raise NoTruth("its weights are divided by more than FSDP (pipeline or expert parallelism)")
        return alone
    if isinstance(root, torch.nn.parallel.DistributedDataParallel):
        raise NoTruth("DistributedDataParallel has a model with a tensor parallel plan")
    widest = max(meshes, key=lambda mesh: mesh.size(), default=None)
    if widest is None or widest.size() != ranks or len(given) > 1:
        raise NoTruth("a part of its ranks divides its layers")
    if not given:
        if widest.ndim != 1 or len(meshes) > 1:
            raise NoTruth("its layers are divided along several dimensions of a mesh, without FSDP")
        return [widest.mesh.tolist()]
    (data,) = given
    rows = widest.mesh.reshape(data.size(), -1)
    if widest.ndim != data.ndim + 1 or not any(
        torch.equal(rows[:, column], data.mesh.flatten()) for column in range(rows.shape[1])
    ):
        raise NoTruth("its ranks are joined by FSDP and a tensor parallel plan in a way that is not known")
    return list(rows.tolist())


def _meshes(given: Iterable[DeviceMesh]) -> list[DeviceMesh]:
    found: list[DeviceMesh] = []
    for mesh in given:
        if not any(torch.equal(mesh.mesh, other.mesh) for other in found):
            found.append(mesh)
    return found


def check_same_data(ranks: Sequence[KeptStep], groups: Sequence[Sequence[int]]) -> None:
    """Raise NoTruth unless the ranks of each group call their models with the same, and go on alike from there."""
    for group in groups:
        first, *others = sorted(group)
        for rank in others:
            both = f"rank {first} and rank {rank}, which divide its layers,"
            for one, other in zip(ranks[first].calls, ranks[rank].calls):
                if not _are_equal(tensors_in(one.given), tensors_in(other.given)):
                    raise NoTruth(f"{both} call their model with different data")
                if not one.has_same_modules(other):
                    raise NoTruth(f"{both} have modules with different buffers or numbers of their own")
                returned_alike = _are_close(one.returned, other.returned)  # else plain PyTorch knows which is wrong
                if one.outside != other.outside or (returned_alike and not _are_close(one.gradients, other.gradients)):
                    raise NoTruth(f"{both} make different losses of what their model returns")
                if one.began != one.drawn and one.began != other.began:
                    raise NoTruth(f"{both} draw different random numbers")


def check_same_weights(ranks: Sequence[KeptStep]) -> None:
    """Raise NoTruth unless ranks have the same of the weights, and parts of weights, of which they are replicas."""
    held: dict[object, tuple[int, torch.Tensor]] = {}
    for rank, step in enumerate(ranks):
        for pieces, values in zip(step.pieces, step.before):
            if not values.numel() or all(piece.count == 0 for piece in pieces):
                continue  # padding
            first, known = held.setdefault(pieces, (rank, values))
            if not torch.equal(known, values):
                both = f"rank {first} and rank {rank}, which should have the same {pieces[0].name},"
                raise NoTruth(f"{both} begin a step with different ones")


def _are_equal(one: Iterable[torch.Tensor], other: Iterable[torch.Tensor]) -> bool:
    one, other = list(one), list(other)
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other))


def _are_close(one: Sequence[torch.Tensor | None], other: Sequence[torch.Tensor | None]) -> bool:
    """Return True if the tensors are equal, to rounding."""
    return len(one) == len(other) and all(_is_close(a, b) for a, b in zip(one, other))


def _is_close(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    atol = 1e-3 * float(one.abs().max()) if one.numel() else 0.0
    return one.shape == other.shape and torch.allclose(one.float(), other.float(), rtol=1e-3, atol=atol)
