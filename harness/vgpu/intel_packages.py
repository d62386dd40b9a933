"""DeepSpeed up to 0.14.0 on a CPU without Intel's packages.

Its CPU accelerator imports ``intel_extension_for_pytorch`` and ``oneccl_bindings_for_pytorch``, uses neither of them itself,
and names oneCCL as the backend of its collectives. Later releases check for the packages, and take gloo without them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_EXTENSION = "intel_extension_for_pytorch"
_COLLECTIVES = "oneccl_bindings_for_pytorch"


def import_deepspeed() -> None:
    """Import the installed DeepSpeed, with the accelerator that ``DS_ACCELERATOR`` names. Afterwards Intel's packages are as
    absent as before, for programs that look for them."""
    if not _demands_what_is_missing():
        import deepspeed

        return
    with _empty_packages():
        import deepspeed  # noqa: F401
        from deepspeed.accelerator import get_accelerator

        accelerator = get_accelerator()
    if accelerator.communication_backend_name() == "ccl":
        accelerator._communication_backend_name = "gloo"


def _demands_what_is_missing() -> bool:
    """Return True if the release needs Intel's packages and they are missing: by its source, it imports oneCCL's bindings
    without a condition."""
    if importlib.util.find_spec(_EXTENSION) is not None or importlib.util.find_spec(_COLLECTIVES) is not None:
        return False
    spec = importlib.util.find_spec("deepspeed")
    if spec is None or spec.origin is None:
        return False
    source = Path(spec.origin).parent / "accelerator" / "cpu_accelerator.py"
    return source.is_file() and f"\nimport {_COLLECTIVES}" in source.read_text(encoding="utf-8")


@contextlib.contextmanager
def _empty_packages() -> Iterator[None]:
    names = (_EXTENSION, _COLLECTIVES)
    for name in names:
        sys.modules[name] = ModuleType(name)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
