"""Sets for a program's process what a launcher and Python set before its first line. Standard library only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

#: Variables by which a launcher gives a process its rank.
RANK_VARIABLES = frozenset((
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "NODE_RANK",
    "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
))  # fmt: skip

#: Variables of torchrun besides those of the rank, with the values of a job that runs once.
TORCHRUN_VARIABLES = {
    "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "none"
}  # fmt: skip


@contextlib.contextmanager
def command_line(words: Sequence[str], folders: Sequence[str]) -> Iterator[None]:
    """Set ``sys.argv``, and import from these folders first, within the block. At the end both are as before."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [*words]
    sys.path[:0] = folders
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
