"""What cells ask a cluster for."""

from __future__ import annotations

import pytest

from dsregress.config.ray import Ray
from dsregress.launch.ray.placing import ClusterNode, Needs, alike, missing_resources, needs_of_cell, whole_node
from dsregress.model import Cell, Stack


def cell(device: str, ranks: int) -> Cell:
    return Cell(
        stack=Stack(python="3.11", versions={}),
        scenario="s",
        scenario_version=1,
        variant="base",
        device=device,
        framework="f",
        parameters={"world_size": ranks},
    )


def nodes(*has: dict[str, float]) -> list[ClusterNode]:
    return [ClusterNode(id=str(number), address=f"10.0.0.{number}", has=one) for number, one in enumerate(has)]


EIGHT_GPUS = {"CPU": 64.0, "GPU": 8.0, "memory": 1e12}
TWO_CORES = {"CPU": 2.0, "memory": 8e9}


@pytest.mark.parametrize(
    ("device", "ranks", "there", "wanted"),
    [
        ("sim", 32, nodes(TWO_CORES), Needs(nodes=1, ranks=1, resources={"CPU": 1, "memory": 2 << 30})),
        ("cpu", 2, nodes(TWO_CORES), Needs(nodes=1, ranks=2, resources={"CPU": 2.0})),
        ("cpu", 4, nodes(TWO_CORES, TWO_CORES), Needs(nodes=2, ranks=2, resources={"CPU": 2.0})),
        (
            "cpu",
            4,
            nodes(TWO_CORES),
            Needs(nodes=1, ranks=4, resources={"CPU": 2.0}),
        ),  # no second node: they share cores
        ("cpu", 3, nodes(TWO_CORES, TWO_CORES), Needs(nodes=1, ranks=3, resources={"CPU": 2.0})),  # no even share
        ("cuda", 8, nodes(EIGHT_GPUS), Needs(nodes=1, ranks=8, resources={"CPU": 1.0, "GPU": 8.0})),
        ("cuda", 32, nodes(*[EIGHT_GPUS] * 4), Needs(nodes=4, ranks=8, resources={"CPU": 1.0, "GPU": 8.0})),
        ("cuda", 32, nodes(EIGHT_GPUS), Needs(nodes=1, ranks=32, resources={"CPU": 1.0, "GPU": 1.0})),  # one for all
    ],
)
def test_ranks_go_on_one_node_where_they_have_room_and_else_evenly_on_several(
    device: str, ranks: int, there: list[ClusterNode], wanted: Needs
) -> None:
    assert needs_of_cell(cell(device, ranks), there, Ray()) == wanted


def test_how_many_ranks_a_node_gets_can_be_said() -> None:
    found = needs_of_cell(cell("cpu", 2), nodes(TWO_CORES, TWO_CORES), Ray(ranks_per_node=1))
    assert found == Needs(nodes=2, ranks=1, resources={"CPU": 1.0})


def test_custom_resources_are_asked_for_by_device() -> None:
    settings = Ray(resources={"cuda": {"A800": 1.0}})
    assert needs_of_cell(cell("cuda", 8), nodes(EIGHT_GPUS), settings).resources == {
        "CPU": 1.0,
        "GPU": 8.0,
        "A800": 1.0,
    }
    assert "A800" not in needs_of_cell(cell("cpu", 2), nodes(TWO_CORES), settings).resources


def test_a_node_that_is_held_is_asked_for_whole() -> None:
    needed = Needs(nodes=1, ranks=1, resources={"CPU": 1.0, "memory": 2 << 30, "A800": 1.0})
    assert whole_node(nodes({**EIGHT_GPUS, "A800": 8.0})[0], needed) == {"CPU": 64.0, "GPU": 8.0, "A800": 1.0}


def test_nodes_are_alike_that_have_as_many_cores_and_gpus() -> None:
    needed = Needs(nodes=2, ranks=2, resources={"CPU": 2.0})
    there = nodes(EIGHT_GPUS, TWO_CORES, TWO_CORES, {"CPU": 1.0}, TWO_CORES)
    assert [[node.id for node in kind] for kind in alike(needed, there)] == [["1", "2", "4"]]


def test_what_is_missing_is_one_line() -> None:
    assert (
        missing_resources(Needs(nodes=1, ranks=1, resources={"CPU": 1.0, "memory": 5.0}))
        == "no node in the cluster has 1 CPU"
    )
    assert (
        missing_resources(Needs(nodes=4, ranks=8, resources={"CPU": 1.0, "GPU": 8.0}))
        == "the cluster has fewer than 4 nodes with 1 CPU and 8 GPUs"
    )
