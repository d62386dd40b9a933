"""What a node has to have, from what one rank, or a few, were measured to need."""

from __future__ import annotations

from dsregress.advice.capacity import host_bytes_per_node, verdict
from dsregress.advice.gpus import card
from dsregress.probe.border.wire import RankRecord
from vgpu.figures import PhaseReading

GIB = 1 << 30


def rank(number: int, load: int, save: int) -> RankRecord:
    phases = {
        "load": PhaseReading(host_peak_bytes=load, host_retained_bytes=load),
        "save": PhaseReading(host_peak_bytes=save, host_retained_bytes=1),
    }
    return RankRecord(rank=number, phases=phases)


def test_every_rank_loads_and_the_first_gathers_what_it_saves() -> None:
    assert host_bytes_per_node([rank(0, load=10, save=50)], 8) == 80
    assert host_bytes_per_node([rank(0, load=1, save=50)], 8) == 50 + 7
    assert host_bytes_per_node([rank(0, load=1, save=50), rank(3, load=1, save=20)], 8) == 50 + 7 * 20
    assert host_bytes_per_node([rank(3, load=1, save=50)], 8) == 8 * 50
    assert host_bytes_per_node([], 8) is None


def test_a_card_that_is_too_small_for_generation_fails_there() -> None:
    needed = {"init": 10.0 * GIB, "generate": 90.0 * GIB, "forward": 20.0 * GIB}
    assert verdict(card("A800-80G"), {}, needed, needed).fails_in == "generate"
