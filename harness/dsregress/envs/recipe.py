"""The requirements of a lock on a given machine: pure, so that every machine's recipe can be tested on any.

A lock names ``torch==2.13.0`` and the CUDA packages that its Linux wheel requires. On a machine without a GPU that is 5 GB
of nothing, so the ``+cpu`` build is wanted, which requires none of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dsregress.model import AXES, Stack

_TORCH = re.compile(r"^torch==(?P<version>[^\s;+]+)")
#: Packages with CPU builds by PyTorch: torch, and those that only load with the torch they were built for.
BUILT_FOR_CPU = ("torch", "torchvision", "torchaudio")
_PINNED = re.compile(rf"^(?P<name>{'|'.join(BUILT_FOR_CPU)})==(?P<version>[^\s;+]+)")
#: Required by torch's CUDA wheels alone; nvidia-ml-py is not of them: DeepSpeed imports it.
_CUDA = re.compile(r"^(nvidia-(?!ml-py)|cuda-|triton\b|pytorch-triton)")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Lines for an installer that resolves nothing by itself."""

    requirements: tuple[str, ...]
    torch: str  #: the build of torch: ``cpu``, ``cuda`` (whatever the index has), or empty without torch
    notes: tuple[str, ...] = ()  #: lines for the user


class CpuBuilds(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU builds, in the indexes, of packages that a lock pins."""

    requirements: Mapping[str, str] = {}  #: package -> requirement: ``torch==2.13.0+cpu``, or ``torch @ URL``
    unknown: str = ""  #: why an index could not be asked


def without_pins_of(requirements: Sequence[str], package: str) -> tuple[str, ...]:
    """Return the lines that do not pin ``package``."""
    name = canonicalize_name(package)
    return tuple(line for line in requirements if canonicalize_name(Requirement(line).name) != name)


def peers(stack: Stack) -> list[str]:
    """Return the packages that the framework under test runs with, patches and is patched by: all that stacks name."""
    return sorted({*AXES, *stack.versions})


def torch_version(requirements: Sequence[str]) -> str:
    """Return the version of torch in a lock, empty if it has none."""
    return next((found["version"] for line in requirements if (found := _TORCH.match(line))), "")


def built_for_cpu(requirements: Sequence[str]) -> dict[str, str]:
    """Return package -> version in a lock, for packages that have builds for the CPU."""
    return {found["name"]: found["version"] for line in requirements if (found := _PINNED.match(line))}


def recipe(requirements: Sequence[str], *, gpu: bool, cpu_builds: CpuBuilds) -> Recipe:
    """Return the lines to install.

    Without a CPU build of torch, this is the plain wheel with its CUDA packages: large, but it runs.
    """
    version = torch_version(requirements)
    if not version:
        return Recipe(requirements=tuple(requirements), torch="")
    builds = cpu_builds.requirements
    if gpu:
        return Recipe(requirements=tuple(requirements), torch="cuda")
    if "torch" not in builds:
        why = f"could not be looked up ({cpu_builds.unknown})" if cpu_builds.unknown else "is in no index"
        note = f"torch {version}: its build for the CPU {why}: installed with its CUDA packages, 4 GB more"
        return Recipe(requirements=tuple(requirements), torch="cuda", notes=(note,))
    built = [re.compile(rf"^{name}==") for name in builds]
    kept = [line for line in requirements if not any(one.match(line) for one in (_CUDA, *built))]
    return Recipe(requirements=tuple(sorted((*kept, *builds.values()))), torch="cpu")
