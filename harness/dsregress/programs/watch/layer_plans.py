"""Models whose layers ranks divide between them, by a tensor parallel plan of torch's or transformers'."""

from __future__ import annotations

import torch

from dsregress.programs.watch.weight_pieces import unwrapped

#: Packages of which a hook, or a ``forward`` of a module's own, joins the parts of a layer.
_OF_TORCH = ("torch.distributed.tensor", "torch.distributed._tensor")
_OF_TRANSFORMERS = ("transformers.distributed", "transformers.integrations.tensor")


def joins_layers(function: object) -> bool:
    """Return True if a function joins the parts of a layer, of a tensor parallel plan."""
    return _made_in(function).startswith(_OF_TORCH + _OF_TRANSFORMERS)


def is_divided(root: torch.nn.Module) -> bool:
    """Return True if a tensor parallel plan was applied to a module."""
    return any(joins_layers(function) for module in unwrapped(root).modules() for function in _put_around(module))


def names_of_own_parts(root: torch.nn.Module) -> list[str]:
    """Return the names of the modules in which a plan of transformers' may leave a rank's part of a weight as a tensor that
    does not say that it is one."""
    return [
        name
        for name, module in unwrapped(root).named_modules()
        if any(joins_layers(one) and _made_in(one).startswith(_OF_TRANSFORMERS) for one in _put_around(module))
    ]


def _put_around(module: torch.nn.Module) -> list[object]:
    """Return what is called beside a module's own ``forward``, or in place of it."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values(), vars(module).get("forward"))
    return [getattr(one, "__func__", one) for one in hooks]


def _made_in(function: object) -> str:
    return str(getattr(function, "__globals__", {}).get("__name__", ""))
