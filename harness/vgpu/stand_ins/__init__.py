"""Packages of kernels that cannot run without a GPU: flash_attn, bitsandbytes, liger_kernel, triton.

If a program imports one that is not installed, a stand-in allocates what the kernels allocate (sim), or computes it with
torch (cpu). Triton's kernels are the program's own, which torch cannot compute: in cpu there is no Triton, as in torch for
CPUs. An installed package is used as it is; but in sim no kernel of Triton's runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from vgpu.no_stand_in import WITHOUT_STAND_IN
from vgpu.stand_ins import caches, finder, flash_release, registered, triton_installed
from vgpu.stand_ins.finder import Package

PACKAGES = (
    Package(
        "flash_attn",
        "flash_attn",
        flash_release.RELEASE,
        {
            "flash_attn": ("flash_attention",),
            "flash_attn.bert_padding": ("flash_padding",),
            "flash_attn.flash_attn_interface": ("flash_attention",),
            "flash_attn.layers": (),
            "flash_attn.layers.rotary": ("flash_rotary",),
            "flash_attn.losses": (),
            "flash_attn.losses.cross_entropy": ("flash_losses",),
            "flash_attn.ops": (),
            "flash_attn.ops.triton": (),
            "flash_attn.ops.triton.cross_entropy": ("flash_losses",),
            "flash_attn.ops.triton.layer_norm": ("flash_norm",),
            "flash_attn.ops.triton.rotary": ("flash_rotary",),
            "flash_attn.utils": (),
            "flash_attn.utils.distributed": ("flash_distributed",),
        },
    ),
    Package(
        "bitsandbytes",
        "bitsandbytes",
        "0.48.2",
        {
            "bitsandbytes": ("bnb_matmul",),
            "bitsandbytes.autograd": (),
            "bitsandbytes.autograd._functions": ("bnb_matmul",),
            "bitsandbytes.functional": ("bnb_functional",),
            "bitsandbytes.nn": ("bnb_layers",),
            "bitsandbytes.nn.modules": ("bnb_layers",),
            "bitsandbytes.optim": ("bnb_optimizers",),
            "bitsandbytes.optim.adam": ("bnb_optimizers",),
            "bitsandbytes.optim.adamw": ("bnb_optimizers",),
            "bitsandbytes.optim.lion": ("bnb_optimizers",),
            "bitsandbytes.optim.optimizer": ("bnb_optimizer_bases",),
        },
    ),
    Package(
        "liger_kernel",
        "liger_kernel",
        "0.6.4",
        {
            "liger_kernel": (),
            "liger_kernel.chunked_loss": ("liger_losses",),
            "liger_kernel.ops": ("liger_ops",),
            "liger_kernel.transformers": ("liger_models",),
        },
    ),
)

_NAMES = ("triton_names",)

TRITON = Package(
    "triton",
    "triton",
    "3.5.1",
    {
        "triton": ("triton_kernels", *_NAMES),
        "triton.backends": _NAMES,
        "triton.backends.compiler": _NAMES,
        "triton.compiler": _NAMES,
        "triton.compiler.compiler": _NAMES,
        "triton.language": _NAMES,
        "triton.language.core": _NAMES,
        "triton.language.extra": _NAMES,
        "triton.language.extra.cuda": _NAMES,
        "triton.language.extra.cuda.libdevice": _NAMES,
        "triton.language.extra.libdevice": _NAMES,
        "triton.language.math": _NAMES,
        "triton.language.standard": _NAMES,
        "triton.runtime": ("triton_kernels", *_NAMES),
        "triton.runtime.autotuner": ("triton_kernels", *_NAMES),
        "triton.runtime.cache": _NAMES,
        "triton.runtime.driver": ("triton_driver",),
        "triton.runtime.jit": ("triton_kernels", *_NAMES),
        "triton.testing": _NAMES,
        "triton.tools": _NAMES,
        "triton.tools.tensor_descriptor": ("triton_descriptors", *_NAMES),
    },
)


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
        yield
