"""The torch of a stack on a machine without a GPU: a build for the CPU, and as of a day the nearest release that has one.

The build with CUDA is 5 GiB, of which such a machine uses nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec
from packaging.version import Version

from dsregress.config.settings import Settings
from dsregress.envs import hardware
from dsregress.envs.installer import Installer
from dsregress.model import Stack
from dsregress.versions.releases import sorted_versions
from dsregress.versions.stack_plans import StackPlan


def is_torch_for_here(release: str, python: str, installer: Installer) -> bool:
    """Return False for a torch that comes with gigabytes of CUDA packages, on a machine without a GPU."""
    if sys.platform != "linux" or hardware.has_gpu():
        return True
    return "torch" in installer.cpu_builds([f"torch=={release}"], python).requirements


def with_torch_for_here(
    planned: StackPlan, given: Mapping[str, str], settings: Settings, installer: Installer
) -> StackPlan:
    """Return stacks of a day with the torch that is nearest to that day's and has a build for the CPU, if that day's has
    none here. A torch that the user ``given`` names stays, as do several that are compared."""
    of_day = planned.baseline.versions.get("torch", "")
    is_of_day = settings.as_of and of_day and "torch" not in (*given, *planned.axes)
    if not is_of_day or is_torch_for_here(of_day, planned.baseline.python, installer):
        return planned
    nearest = _nearest_for_the_cpu(of_day, planned.baseline.python, installer)
    if not nearest:
        return planned
    note = (
        f"no index that can be reached has torch {of_day}, of {settings.as_of}, for the CPU: torch {nearest} is taken, "
        f"the nearest that is there; --torch {of_day} installs its CUDA packages, too"
    )
    return msgspec.structs.replace(
        planned,
        stacks=tuple(_with_torch(stack, nearest) for stack in planned.stacks),
        baseline=_with_torch(planned.baseline, nearest),
        notes=(*planned.notes, note),
    )


def _with_torch(stack: Stack, release: str) -> Stack:
    return msgspec.structs.replace(stack, versions={**stack.versions, "torch": release})


def _nearest_for_the_cpu(release: str, python: str, installer: Installer) -> str:
    """Return the release of torch with the fewest others between it and ``release`` among those whose builds for the CPU the
    indexes list, whenever they were uploaded; empty without any."""
    listed = installer.as_of_day("").published("torch", python)
    there = {text.partition("+")[0] for text in listed if text.endswith("+cpu")}
    order = [one for one in sorted_versions((*listed, *there, release)) if not Version(one).is_prerelease]
    place = order.index(release)
    return min((one for one in order if one in there), key=lambda one: abs(order.index(one) - place), default="")
