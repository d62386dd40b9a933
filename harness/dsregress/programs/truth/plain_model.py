"""Makes the models of a rank plain: the same modules, with whole weights, and nothing of torch's that divides or gathers
them.

It changes the modules themselves, so it is done in a process that does nothing else. What a program has changed of its
modules stays: they call each other as before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from dsregress.programs.truth.plain_settings import NoTruth
from dsregress.programs.watch.layer_plans import joins_layers
from dsregress.programs.watch.weight_pieces import Weight, flat_handle, unwrapped

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


@dataclass(frozen=True)
class Unit:
    """A module that FSDP gathers at once, and the dtypes of its mixed precision; None: unchanged."""

    module: Any
    computes_in: torch.dtype | None
    casts_inputs: bool
    returns: torch.dtype | None
    reduces_in: torch.dtype | None
    mesh: DeviceMesh | None = None  #: of FSDP2


def units_of(root: Any) -> Iterator[Unit]:
    """Yield the units of FSDP1 and FSDP2 in a module. Raise NoTruth for gradients that are not averaged on purpose."""
    for module in unwrapped(root).modules():
        if (handle := flat_handle(module)) is not None:
            mixed = module.mixed_precision
            casts = mixed.cast_forward_inputs or (module._is_root and mixed.cast_root_forward_inputs)
            yield Unit(module, handle._fwd_bwd_param_dtype, casts, None, handle._reduce_dtype)
        elif is_fsdp2(module):
            state = module._get_fsdp_state()
            groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
            if any(getattr(group, "gradient_divide_factor", None) is not None for group in groups):
                raise NoTruth("it divides gradients by a number of its own")
            policy = state._mp_policy
            mesh = next((group.mesh_info.mesh for group in groups if group is not None), None)
            yield Unit(
                module, policy.param_dtype, policy.cast_forward_inputs, policy.output_dtype, policy.reduce_dtype, mesh
            )


def computing_dtypes(root: Any, units: Sequence[Unit]) -> dict[int, torch.dtype | None]:
    """Return the dtype in which each parameter of a module is computed with, by identity; None: its own."""
    own = {id(unit.module): unit for unit in units}
    found: dict[int, torch.dtype | None] = {}

    def note_dtypes(module: Any, computes_in: torch.dtype | None) -> None:
        if id(module) in own:
            computes_in = own[id(module)].computes_in
        if (handle := flat_handle(module)) is not None:
            for parameter in (handle.flat_param, *(handle.flat_param._params or ())):
                found[id(parameter)] = computes_in
        for parameter in module.parameters(recurse=False):
            found.setdefault(id(parameter), computes_in)
        for child in module.children():
            note_dtypes(child, computes_in)

    note_dtypes(unwrapped(root), None)
    return found


def check_ranks(root: Any, groups: Sequence[Sequence[int]], units: Sequence[Unit]) -> None:
    """Raise NoTruth unless the gradients of a module are the mean over all ``groups`` of ranks that divide its layers."""
    if len(groups) == 1:
        return
    ranks = sum(len(group) for group in groups)
    if isinstance(root, torch.nn.parallel.DistributedDataParallel):
        if root._comm_hooks:
            raise NoTruth("a hook of the program's own combines its gradients")
        if torch.distributed.get_world_size(root.process_group) != ranks:
            raise NoTruth("a part of the ranks shares its gradients")
        if getattr(root, "mixed_precision", None) is not None:
            raise NoTruth("plain PyTorch has no mixed precision of DistributedDataParallel's")
    elif not units:
        raise NoTruth("its ranks are joined by neither DistributedDataParallel nor FSDP")


def made_plain(root: Any, units: Sequence[Unit], weights: Sequence[Weight], whole: Mapping[str, Any]) -> Any:
    """Make a module plain, with the ``whole`` parameters by name in place of ``weights``; return it."""
    replaced = {id(weight.parameter): whole[weight.pieces[0].name] for weight in weights if len(weight.pieces) == 1}
    named = {id(weight.parameter): [piece.name for piece in weight.pieces] for weight in weights}
    modules = list(unwrapped(root).modules())
    for module in modules:
        if (handle := flat_handle(module)) is not None:
            _place_flat(handle.flat_param, named, whole)
    for module in modules:
        if is_fsdp2(module):
            module.__class__ = type(module).__bases__[1]
        for name in _HOOKS:
            hooks = getattr(module, name)
            for key in [key for key, hook in hooks.items() if _is_of_distributed(hook)]:
                del hooks[key]
        if joins_layers(forward := vars(module).get("forward")):
            _take_off(module, forward)
        for name, buffer in module._buffers.items():
            if hasattr(buffer, "to_local"):
                if not all(one.is_replicate() for one in buffer.placements):
                    raise NoTruth("it has buffers that are divided among ranks")
                module._buffers[name] = buffer.to_local().detach().clone()
        for name, parameter in module._parameters.items():
            if id(parameter) in replaced:
                module._parameters[name] = replaced[id(parameter)]
        for name, child in module._modules.items():
            if child is not None and flat_handle(child) is not None:
                module._modules[name] = _inner(child)
    for unit in units:
        _cast_as(_inner(unit.module), unit)
    return _inner(unwrapped(root))


def _place_flat(flat: Any, named: Mapping[int, Sequence[str]], whole: Mapping[str, Any]) -> None:
    """Give the modules of a unit of FSDP1 their parameters back."""
    names = named[id(flat)] if id(flat) in named else [named[id(seen)][0] for seen in flat._params]
    first = {}
    for name, (attribute, module, _) in zip(names, flat._param_infos):
        _set_parameter(module, attribute, whole[name])
        first[id(module), attribute] = whole[name]
    for attribute, module, _, other, other_module, _ in flat._shared_param_infos:
        _set_parameter(module, attribute, first[id(other_module), other])


def _set_parameter(module: Any, name: str, parameter: Any) -> None:
    module.__dict__.pop(name, None)
    module._parameters[name] = parameter


def _inner(module: Any) -> Any:
    while flat_handle(module) is not None:
        module = module._fsdp_wrapped_module
    return module


def is_fsdp2(module: object) -> bool:
    """Return True if ``fully_shard`` was given a module."""
    return hasattr(type(module), "_get_fsdp_state")


def _take_off(module: torch.nn.Module, forward: Callable[..., object]) -> None:
    """Give a module the ``forward`` back around which transformers has put one that joins the parts of a layer."""
    inner = inspect.getclosurevars(forward).nonlocals.get("original_forward")
    if inner != type(module).forward.__get__(module):
        raise NoTruth("its tensor parallel plan replaces what a module computes")
    del module.forward


def _is_of_distributed(hook: object) -> bool:
    """Return True if torch's distributed packages, or transformers' tensor parallelism, made a hook."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    hook = getattr(hook, "__func__", hook)
    made_in = getattr(hook, "__globals__", {}).get("__name__", "")
    return bool(made_in.startswith("torch.distributed.") or joins_layers(hook))


def _cast_as(module: Any, unit: Unit) -> None:
    """Cast what a module is given and what it returns, as mixed precision promises."""
    if unit.casts_inputs and unit.computes_in is not None:
        module.register_forward_pre_hook(
            lambda _, args, kwargs: _casted((args, kwargs), unit.computes_in), with_kwargs=True
        )
    if unit.returns is not None:
        module.register_forward_hook(lambda _, args, out: _casted(out, unit.returns))


def _casted(value: Any, dtype: torch.dtype | None) -> Any:
    from torch.distributed.utils import _apply_to_tensors

    def change(one: torch.Tensor) -> torch.Tensor:
        return one.to(dtype) if one.is_floating_point() else one

    return _apply_to_tensors(change, value)
