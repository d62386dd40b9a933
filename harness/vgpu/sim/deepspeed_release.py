"""Patches of DeepSpeed for a simulation, found by feature and never by version number."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from vgpu.replacing import Patches

#: Functions that compare values across ranks and have no other effect: in a healthy job all agree.
_SANITY_CHECKS = {
    "assert_ints_same_as_other_ranks": "",
    "assert_lst_len_same_as_other_ranks": "deepspeed 0.17.6",  # by then: 0.16.9 does not have it
}


@contextlib.contextmanager
def ranks_agree() -> Iterator[None]:
    """Disable comparisons across ranks within the block: in a process group that computes nothing they would compare
    noise."""
    checks = sys.modules.get("deepspeed.runtime.zero.utils")
    with Patches("ranks agree") as patches:
        if checks is not None:
            for name, since in _SANITY_CHECKS.items():
                patches.definition(checks, name, _agreed, since=since)
            patches.definition(checks, "get_lst_from_rank0", list)
        yield


def _agreed(*_: object, **__: object) -> None:
    """Do nothing: every rank has the same."""
