"""Releases in their order, and as ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import InvalidVersion, Version

from harness.model import AXES, Stack
from harness.wording.names import varied_axes, version


def in_version_order(stacks: Sequence[Stack]) -> list[Stack]:
    """Oldest first, by each axis in turn; what is not a version sorts before what is."""

    def key(stack: Stack) -> list[tuple[int, Version | str]]:
        axes = ["python", *AXES, *sorted(set(stack.versions) - set(AXES))]
        return [_sortable(version(stack, axis)) for axis in axes]

    return sorted(stacks, key=key)


def ranges(ids: Sequence[str], stacks: Sequence[Stack], names: Mapping[str, str]) -> str:
    """Short names, ``0.16.0 to 0.16.7, 0.18.1``: neighbours among the measured stacks are joined where one axis varies."""
    if len(varied_axes(stacks)) > 1:
        return ", ".join(names[stack] for stack in ids)
    order = {stack.id: at for at, stack in enumerate(stacks)}
    runs: list[list[str]] = []
    for stack in ids:
        if runs and order[stack] == order[runs[-1][-1]] + 1:
            runs[-1].append(stack)
        else:
            runs.append([stack])
    parts = []
    for run in runs:
        ends = [names[run[0]], names[run[-1]]]
        if len(run) > 2:
            parts.append(f"{ends[0]} to {ends[1]}")
        else:
            parts += [names[stack] for stack in run]
    return ", ".join(parts)


def _sortable(text: str) -> tuple[int, Version | str]:
    try:
        return (1, Version(text))
    except InvalidVersion:
        return (0, text)
