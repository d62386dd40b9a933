"""Packages of compiled kernels that cannot be installed without a GPU: flash_attn, bitsandbytes, liger_kernel.

Where a program imports one that is not installed, a stand-in holds what the kernels hold (sim), or computes it with torch
(cpu). What is installed is the program's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.probe.virtual_gpu.stand_ins import caches, finder
from harness.probe.virtual_gpu.stand_ins.finder import Package

PACKAGES = (
    Package(
        "flash_attn",
        "flash_attn",
        "2.8.3",
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


@contextlib.contextmanager
def provided() -> Iterator[None]:
    """Inside, the packages that are not installed have stand-ins."""
    with finder.found(PACKAGES) as missing, caches.refreshed(missing):
        yield
