"""Numbers of a module that count only what a rank has, as ``n_heads`` once a program has divided it by the number of ranks.

Which they are nothing says. They are those with which plain PyTorch returns what the program's model returned.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

#: Of more names than these, no more than two are tried at once.
_MOST_NAMES = 6

#: What is returned may be so many roundings off, of its norm, and never more than this share of it.
_ROUNDINGS, _MOST = 1000, 0.02


def names_of_counts(root: torch.nn.Module, divided: Iterable[object]) -> list[str]:
    """Return the names of numbers that modules have which have, or call one with, ``divided`` weights."""
    names: dict[str, None] = {}
    for module in _with_divided_parts(root, divided):
        names |= dict.fromkeys(name for name, value in vars(module).items() if type(value) is int and value > 0)
    return list(names)


def multiply_counts(root: torch.nn.Module, divided: Iterable[object], names: Sequence[str], by: int) -> None:
    """Multiply the numbers of these names."""
    for module in _with_divided_parts(root, divided):
        for name in names:
            if type(value := vars(module).get(name)) is int:
                setattr(module, name, value * by)


def chosen_names(
    names: Sequence[str],
    returned: Callable[[Sequence[str]], Sequence[torch.Tensor]],
    old: Sequence[torch.Tensor],
    eps: float,
) -> Sequence[str] | None:
    """Return those of ``names``, or none of them, with which the tensors ``returned`` are nearest to the ``old`` ones; None
    if they are not as near as a rounding of ``eps`` leaves them."""
    found: list[tuple[float, Sequence[str]]] = []
    near = min(_ROUNDINGS * eps, _MOST)
    for some in _subsets(names):
        try:
            away = _distance(returned(some), old)
            if away <= near and not some:
                return some
            found.append((away, some))
        except Exception:  # of the program's model, with numbers that do not fit
            continue
    away, best = min(found, key=lambda one: one[0], default=(1.0, ()))
    return best if away <= near else None


def _with_divided_parts(root: torch.nn.Module, divided: Iterable[object]) -> Iterator[torch.nn.Module]:
    own = {id(parameter) for parameter in divided}
    for module in root.modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
            continue
        if any(id(one) in own for part in (module, *module.children()) for one in part.parameters(recurse=False)):
            yield module


def _subsets(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for size in range((len(names) if len(names) <= _MOST_NAMES else 2) + 1):
        yield from itertools.combinations(names, size)


def _distance(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    """Return the largest distance of two tensors, as a share of the second's norm."""
    if [tensor.shape for tensor in one] != [tensor.shape for tensor in other]:
        return float("inf")
    return max(float((a.double() - b.double()).norm() / (b.double().norm() + 1e-30)) for a, b in zip(one, other))
