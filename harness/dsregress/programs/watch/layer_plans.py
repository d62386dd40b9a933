"""Models whose layers ranks divide between them, by a tensor parallel plan of torch's or transformers'."""

from __future__ import annotations

from typing import Any

from dsregress.programs.watch.weight_pieces import unwrapped

#: Packages of which a hook, or a ``forward`` of a module's own, joins the parts of a layer.
_JOINING = (
    "torch.distributed.tensor", "torch.distributed._tensor", "transformers.distributed",
    "transformers.integrations.tensor_parallel",
)  # fmt: skip


def joins_layers(function: object) -> bool:
    """Return True if a function joins the parts of a layer, of a tensor parallel plan."""
    return _made_in(function).startswith(_JOINING)


def is_divided(root: Any) -> bool:
    """Return True if a tensor parallel plan was applied to a module."""
    return any(joins_layers(function) for module in unwrapped(root).modules() for function in _put_around(module))


def names_of_own_parts(root: Any) -> list[str]:
    """Return the names of the modules in which a plan of transformers' may leave a rank's part of a weight as a tensor that
    does not say that it is one."""
    return [
        name
        for name, module in unwrapped(root).named_modules()
        if any(joins_layers(one) and not _made_in(one).startswith("torch.") for one in _put_around(module))
    ]


def _put_around(module: Any) -> list[Any]:
    """Return what is called beside a module's own ``forward``, or in place of it."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values(), vars(module).get("forward"))
    return [getattr(one, "__func__", one) for one in hooks]


def _made_in(function: Any) -> str:
    return str(getattr(function, "__globals__", {}).get("__name__", ""))
