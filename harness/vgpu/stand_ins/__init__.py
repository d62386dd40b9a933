"""Packages of kernels that cannot run without a GPU: flash_attn, bitsandbytes, liger_kernel, triton.

If a program imports one that is not installed, a stand-in allocates what the kernels allocate (sim), or computes it with
torch (cpu). Triton's kernels are the program's own, which torch cannot compute: in cpu there is no Triton, as in torch for
CPUs. An installed package is used as it is; but no kernel of Triton's runs: in sim it ends at its launch, in cpu it can only
be defined.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

from vgpu.json_tables import decoded_text_lists, table_beside
from vgpu.no_stand_in import WITHOUT_STAND_IN
from vgpu.stand_ins import caches, finder, flash_release, registered, triton_installed
from vgpu.stand_ins.finder import Package

#: Package -> module of it -> the modules here whose public names it has. A module without any is a package of others.
_MODULES = {name: decoded_text_lists(modules) for name, modules in table_beside(__file__).items()}

PACKAGES = (
    Package("flash_attn", "flash_attn", flash_release.RELEASE, _MODULES["flash_attn"]),
    Package("bitsandbytes", "bitsandbytes", "0.48.2", _MODULES["bitsandbytes"]),
    Package("liger_kernel", "liger_kernel", "0.6.4", _MODULES["liger_kernel"]),
)

TRITON = Package("triton", "triton", "3.5.1", _MODULES["triton"])


@contextlib.contextmanager
def there_at_import() -> Iterator[None]:
    """Provide bitsandbytes within the block, for imports made ahead of a program's: peft up to 0.7 looks for it once, at the
    top of its modules."""
    with finder.found([package for package in PACKAGES if package.name == "bitsandbytes"]):
        yield


@contextlib.contextmanager
def provided(target: str) -> Iterator[None]:
    """Provide stand-ins for packages that are not installed within the block, for kernels that run on ``target``: ``meta``
    in sim."""
    simulated = target == "meta"
    with contextlib.ExitStack() as stack:
        missing = stack.enter_context(finder.found((*PACKAGES, TRITON) if simulated else PACKAGES, WITHOUT_STAND_IN))
        stack.enter_context(caches.refreshed(missing))
        stack.enter_context(registered.provided())
        if simulated and TRITON not in missing:
            stack.enter_context(triton_installed.launching())
        elif target == "cpu" and importlib.util.find_spec(TRITON.name) is not None:
            stack.enter_context(triton_installed.driving())
        yield
