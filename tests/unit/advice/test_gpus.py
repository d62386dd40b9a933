"""The hardware catalogue, and the model of the least time of a step."""

from __future__ import annotations

import pytest

from dsregress.advice import gpus
from dsregress.advice.gpus import step_time
from dsregress.errors import UsageError
from vgpu.figures import PhaseReading

GIB = 1 << 30


def test_every_card_has_its_sources_and_less_usable_memory_than_the_driver_reports() -> None:
    for name, card in gpus.catalogue().items():
        assert card.name == name
        assert card.sources
        assert 0 < card.usable_bytes < card.memory_mib << 20, name
        assert (card.memory_mib << 20) - card.usable_bytes < 1.1 * GIB, name


def test_the_cards_that_the_documentation_names_are_known_in_any_case() -> None:
    names = ["A800-80G", "A100-80G", "A100-40G", "H100-80G", "H200", "V100-32G", "V100-16G", "L40S", "RTX-4090", "B200"]
    assert [gpus.card(name.lower()).name for name in names] == names


def test_an_a800_is_an_a100_with_two_thirds_of_its_links() -> None:
    a800, a100 = gpus.card("A800-80G"), gpus.card("A100-80G")
    assert (a800.tflops, a800.memory_mib) == (a100.tflops, a100.memory_mib)
    assert a800.link_gbs / a100.link_gbs == pytest.approx(2 / 3)


def test_where_torchs_total_is_not_known_the_largest_gap_of_the_others_is_taken_off() -> None:
    card = gpus.card("H200")
    assert card.usable_gib is None
    assert card.usable_bytes == (143771 - 768) << 20


def test_volta_has_no_bf16() -> None:
    assert gpus.card("V100-32G").flops("bf16") is None
    assert gpus.card("V100-32G").flops("fp16") == 125e12
    assert gpus.card("V100-32G").without("bf16") == "no bf16 units on this card"
    assert gpus.card("V100-32G").without("fp16") == gpus.card("A100-80G").without("bf16") == ""


def test_every_card_has_a_peak_or_a_source_for_having_none_in_each_dtype() -> None:
    for name, card in gpus.catalogue().items():
        assert set(card.tflops) | set(card.lacks) == {"bf16", "fp16", "fp32"}, name
        assert not set(card.tflops) & set(card.lacks), name
        assert all(card.lacks.values()), name


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("rtx 3090", "RTX-3090"),
        ("RTX3090", "RTX-3090"),
        ("4090", "RTX-4090"),  # one kind alone ends so
        ("A100-80GB", "A100-80G"),
        ("H100", "H100-80G"),  # one kind alone begins so
        ("L4", "L4"),  # though another begins so
        ("h200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100-80G"),
        ("NVIDIA A100-SXM4-40GB", "A100-40G"),
        ("NVIDIA A800-SXM4-80GB", "A800-80G"),
        ("nvidia h20", "H20-96G"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("Tesla V100-SXM2-32GB", "V100-32G"),
        ("A100-SXM4-80GB", "A100-80G"),
    ],
)
def test_a_card_is_found_however_it_is_spelled(name: str, card: str) -> None:
    assert gpus.card(name).name == card


@pytest.mark.parametrize("name", ["NVIDIA", "NVIDIA H100 PCIe", "SXM4"])
def test_another_card_of_a_driver_is_not_taken_for_a_known_one(name: str) -> None:
    assert gpus.known_card(name) is None


def test_a_name_that_several_cards_begin_with_is_refused() -> None:
    with pytest.raises(UsageError, match="no such GPU: A100"):
        gpus.card("A100")


def test_an_unknown_card_is_one_line_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        gpus.card("A80-80G")
    assert str(caught.value) == "--gpu: no such GPU: A80-80G; did you mean A800-80G, H800-80G, A100-80G?"
    with pytest.raises(UsageError) as caught:
        gpus.card("Gaudi")
    assert str(caught.value) == (
        "--gpu: no such GPU: Gaudi; there are: A100-40G, A100-80G, A800-80G, B200, H100-80G, "
        "H20-96G, H200, H800-80G, L4, L40S, RTX-3090, RTX-4090, RTX-5090, RTX-A6000, T4, V100-16G, V100-32G"
    )


@pytest.mark.parametrize(
    ("kind", "ranks", "share"),
    [
        ("all_reduce", 4, 1.5),
        ("all_gather", 4, 0.75),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 4, 0.75),
        ("broadcast", 4, 1.0),
        ("reduce", 4, 1.0),
        ("send", 4, 1.0),
        ("barrier", 4, 0.0),
        ("all_reduce", 1, 0.0),
    ],
)
def test_a_link_carries_what_nccl_tests_calls_bus_bandwidth(kind: str, ranks: int, share: float) -> None:
    assert step_time.wire_share(kind, ranks) == share


def test_a_ring_beyond_one_node_is_bound_by_the_nodes_network() -> None:
    card = gpus.card("A100-80G")
    assert step_time.link_bytes_per_s(card, 8) == 300e9
    assert step_time.link_bytes_per_s(card, 16) == 200e9  # eight adapters of 200 Gb/s
    assert step_time.link_bytes_per_s(card, 16, network_gbits_per_gpu=400) == 300e9  # NVLink is the slower one now
    assert step_time.link_bytes_per_s(card, 16, gpus_per_node=16) == 300e9


def test_a_phase_takes_as_long_as_its_slowest_resource() -> None:
    card = gpus.card("A100-80G")
    reading = PhaseReading(flops=312 * 10**12, collectives={"all_gather": [3, 800 * 10**9], "barrier": [1, 0]})
    bound = step_time.bound(reading, card, "bf16", 4, 300e9, state_bytes=2039 * 10**9)
    assert bound is not None
    assert (bound.compute_s, bound.communication_s, bound.memory_s) == (1.0, pytest.approx(2.0), pytest.approx(2.0))
    assert bound.least_s == pytest.approx(2.0)
    assert step_time.bound(PhaseReading(flops=1), card, "bf16", 4, 300e9).limit == "compute"  # type: ignore[union-attr]


def test_init_is_no_part_of_a_step_and_a_dtype_that_the_card_lacks_has_no_bound() -> None:
    phases = {name: PhaseReading(flops=10**12) for name in ("init", "forward", "backward", "step")}
    assert list(step_time.step_bound(phases, gpus.card("H200"), "bf16", 8)) == ["forward", "backward", "step"]
    assert step_time.step_bound(phases, gpus.card("V100-16G"), "bf16", 8) == {}
