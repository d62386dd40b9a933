"""The figures that `vgpu run` prints at the end of a program."""

from __future__ import annotations

import types

import pytest

pytest.importorskip("torch")

from vgpu.command.run_summary import _room_lines

GIB = 1 << 30


@pytest.mark.parametrize(
    ("needed", "begins"),
    [
        (20 * GIB, "fits: "),
        (38 * GIB, "fits with less than 1.14 GiB to spare: "),
        (39 * GIB, "too close to call: "),
        (40 * GIB, "does not fit: "),
    ],
)
def test_a_run_says_its_verdict_first(needed: int, begins: str) -> None:
    gpu = types.SimpleNamespace(
        memory=types.SimpleNamespace(smallest_card_bytes=needed),
        card=types.SimpleNamespace(usable_bytes=40 * GIB, name="A100-40G"),
        world_size=8,
        ranks_per_node=8,
    )
    assert _room_lines(gpu)[0].startswith(
        f"{begins}the allocator needs {needed / GIB:.2f} GiB of the 40.00 of A100-40G"
    )
