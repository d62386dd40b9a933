"""torchvision beside a torch that it was not built for.

On a machine without a GPU an environment has torch's CPU build, and where no index has torchvision's, its wheel for CUDA.
That cannot load its operators (``nms``, ``roi_align`` and a few more of object detection), as torchvision itself says to
who calls one; but it also describes ``nms`` while it is imported, and then no program can import it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

_NAMESPACE = "torchvision::"


def may_be_absent() -> None:
    """From now on torchvision can be imported without its operators. Imports torch where there is a torchvision."""
    if importlib.util.find_spec("torchvision") is None:
        return
    import torch

    describe = torch.library.register_fake

    def register_fake(operator: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(operator, str) and operator.startswith(_NAMESPACE):
            name = operator.removeprefix(_NAMESPACE).partition(".")[0]
            if not hasattr(torch.ops.torchvision, name):
                return _as_it_is
        return describe(operator, *args, **kwargs)

    torch.library.register_fake = register_fake


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
