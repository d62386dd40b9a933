"""``torch.jit.script`` with replaced functions. It recognizes a function of torch's own by its identity; it would compile
the Python source of a replacement, and refuse it. ``torch.distributed.optim`` alone scripts a dozen classes on import."""

from __future__ import annotations

from collections.abc import Callable

from torch.jit import _builtins

from vgpu.replacing import Patches


def set_builtin(patches: Patches, owner: object, name: str, replacement: Callable[..., object]) -> None:
    """Replace an attribute as ``patches.set`` does. If it is a function of torch's own, scripts still take the replacement
    for that one."""
    operator = _builtins._find_builtin(getattr(owner, name))
    patches.replace(owner, name, replacement)
    if operator is not None:
        _builtins._register_builtin(replacement, operator)
        patches.callback(_builtins._get_builtin_table().pop, id(replacement), None)
