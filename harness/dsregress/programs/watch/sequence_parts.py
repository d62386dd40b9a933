"""The part of each sequence that a rank has while torch's context parallelism divides them: which tokens, among which ranks.
Unmetered."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from vgpu.replacing import Patches

_PACKAGE = "torch.distributed.tensor.experimental"


@dataclass(frozen=True)
class SequencePart:
    """One rank's part."""

    ranks: tuple[int, ...]  #: that divide a sequence, in the order of their mesh
    tokens: torch.Tensor  #: places of this rank's tokens in the whole sequence, of shape (tokens,)


class SequenceParts:
    """Follows the program into ``context_parallel`` between `begin` and `end`."""

    def __init__(self) -> None:
        self.part: SequencePart | None = None  #: of now; None: sequences are whole
        self._known: dict[tuple[tuple[int, ...], int], SequencePart] = {}
        self._patches = Patches("the parts of sequences of context parallelism are noted")

    def begin(self) -> None:
        """Begin, before the program has taken the function from its module."""
        try:
            package = importlib.import_module(_PACKAGE)
        except ImportError:  # torch before 2.5
            return
        if self._patches.has(package, "context_parallel", since="torch 2.6"):
            original = package.context_parallel
            self._patches.everywhere(original, self._noting(original), "context_parallel")

    def end(self) -> None:
        """Follow no more."""
        self._patches.close()

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @contextlib.contextmanager
        def divided(
            mesh: Any, *, buffers: Sequence[Any] = (), buffer_seq_dims: Sequence[int] = (), **more: Any
        ) -> Iterator[None]:
            lengths = [one.shape[dim] for one, dim in zip(buffers or (), buffer_seq_dims or ())]
            part = self._own_part(original, mesh, lengths[0]) if lengths else None
            with original(mesh, buffers=buffers, buffer_seq_dims=buffer_seq_dims, **more):
                outer, self.part = self.part, part
                try:
                    yield
                finally:
                    self.part = outer

        return divided

    def _own_part(self, original: Callable[..., Any], mesh: Any, tokens: int) -> SequencePart:
        """Find out this rank's tokens by dividing their numbers."""
        key = tuple(mesh.mesh.flatten().tolist()), tokens
        if key not in self._known:
            with _disable_current_modes():
                numbers = torch.arange(tokens)
                with original(mesh, buffers=[numbers], buffer_seq_dims=[0], no_restore_buffers={numbers}):
                    self._known[key] = SequencePart(key[0], numbers.clone())
        return self._known[key]
