"""What a lock means on a machine: pure, so that every machine's recipe can be tested on any.

A lock names ``torch==2.13.0`` and the CUDA packages that its Linux wheel requires. On a machine without a GPU that is 5 GB
of nothing, so the ``+cpu`` build is wanted, which requires none of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.model import AXES, Stack

_TORCH = re.compile(r"^torch==(?P<version>[^\s;+]+)")
#: Required by torch's CUDA wheels alone; nvidia-ml-py is not of them: DeepSpeed imports it.
_CUDA = re.compile(r"^(nvidia-(?!ml-py)|cuda-|triton\b|pytorch-triton)")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Lines for an installer that resolves nothing by itself."""

    requirements: tuple[str, ...]
    torch: str  #: which build of torch: ``cpu``, ``cuda`` (whatever the index has), or empty where there is none


def without(requirements: Sequence[str], package: str) -> tuple[str, ...]:
    """The lines that do not pin ``package``."""
    name = canonicalize_name(package)
    return tuple(line for line in requirements if canonicalize_name(Requirement(line).name) != name)


def peers(stack: Stack) -> list[str]:
    """What the framework under test runs with, patches and is patched by: all packages that stacks name."""
    return sorted({*AXES, *stack.versions})


def torch_version(requirements: Sequence[str]) -> str:
    """The version of torch in a lock, empty where it has none."""
    return next((found["version"] for line in requirements if (found := _TORCH.match(line))), "")


def recipe(requirements: Sequence[str], *, gpu: bool, cpu_torch: str | None) -> Recipe:
    """The lines to install.

    ``cpu_torch`` is the requirement that yields a CPU build of the locked torch (``torch==2.13.0+cpu``, or ``torch @ URL``);
    None where none can be had, which leaves the plain wheel with its CUDA packages: large, and it runs.
    """
    version = torch_version(requirements)
    if not version:
        return Recipe(requirements=tuple(requirements), torch="")
    if gpu or cpu_torch is None:
        return Recipe(requirements=tuple(requirements), torch="cuda")
    kept = [line for line in requirements if not _CUDA.match(line) and not _TORCH.match(line)]
    return Recipe(requirements=tuple(sorted((*kept, cpu_torch))), torch="cpu")
