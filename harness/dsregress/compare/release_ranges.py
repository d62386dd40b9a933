"""Releases in their order, and as ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import InvalidVersion, Version

from dsregress.messages import COMMA, Text, joined, message
from dsregress.model import AXES, Stack
from dsregress.wording.names import varied_axes, version_of


def in_version_order(stacks: Sequence[Stack]) -> list[Stack]:
    """Return stacks in version order, the oldest first, by each axis in turn; a value that is not a version sorts before
    versions."""

    def release_order(stack: Stack) -> list[tuple[int, Version | str]]:
        axes = ["python", *AXES, *sorted(set(stack.versions) - set(AXES))]
        return [_sortable(version_of(stack, axis)) for axis in axes]

    return sorted(stacks, key=release_order)


def ranges(ids: Sequence[str], stacks: Sequence[Stack], names: Mapping[str, str]) -> str:
    """Return `range_text` in English."""
    return str(range_text(ids, stacks, names))


def range_text(ids: Sequence[str], stacks: Sequence[Stack], names: Mapping[str, str]) -> Text:
    """Return short names, ``0.16.0 to 0.16.7, 0.18.1``: neighbours among the measured stacks are joined if one axis
    varies."""
    if len(varied_axes(stacks)) > 1:
        return joined(COMMA, (names[stack] for stack in ids))
    return _with_neighbours_joined([names[stack] for stack in ids], [names[stack.id] for stack in stacks])


def axis_range_text(axis: str, having: Sequence[Stack], stacks: Sequence[Stack]) -> Text:
    """Return ``openrlhf 0.9.3 to 0.11.2``: the releases of one package in ``having``; those in ``stacks`` were measured."""
    own, measured = ({version_of(stack, axis) for stack in some} for some in (having, stacks))
    releases = _with_neighbours_joined(sorted(own, key=_sortable), sorted(measured, key=_sortable))
    return message("{package} {releases}", package=axis, releases=releases)


def _with_neighbours_joined(own: Sequence[str], measured: Sequence[str]) -> Text:
    """Return names as text, neighbours among ``measured`` joined. Both sequences are in order."""
    order = {name: at for at, name in enumerate(measured)}
    runs: list[list[str]] = []
    for name in own:
        if runs and order[name] == order[runs[-1][-1]] + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    spans = ((message("{first} to {last}", first=run[0], last=run[-1]),) if len(run) > 2 else run for run in runs)
    return joined(COMMA, (text for span in spans for text in span))


def _sortable(text: str) -> tuple[int, Version | str]:
    try:
        return (1, Version(text))
    except InvalidVersion:
        return (0, text)
