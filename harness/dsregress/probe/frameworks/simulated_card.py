"""The virtual card of a scenario in ``sim``, and its meter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dsregress.probe.framework import Meter
from dsregress.probe.program import DEFAULTS
from dsregress.probe.workloads.workload import pick
from vgpu import card_catalogue
from vgpu.allocator.model import AllocatorSettings
from vgpu.allocator.options import spelled_options
from vgpu.attaching import attached
from vgpu.device.card import VirtualCard
from vgpu.replacing import variables
from vgpu.sim import Simulation
from vgpu.sim.simulation import SimulationMeter


class SynchronizingMeter(SimulationMeter):
    """Waits for the card before each phase, as `dsregress.probe.gpu.cuda.CudaMeter` does."""

    def begin(self) -> None:
        torch.cuda.synchronize()
        super().begin()


@contextlib.contextmanager
def on_virtual_card(parameters: Mapping[str, Any]) -> Iterator[Meter]:
    """Make this process rank 0 of the scenario's ranks, on the virtual card that ``parameters["gpu"]`` names, within the
    block. A scenario without one gets the card of a program without one."""
    card = card_of(parameters)
    ranks = int(parameters["world_size"])
    options = spelled_options(pick(AllocatorSettings, parameters))
    with (
        variables({"PYTORCH_CUDA_ALLOC_CONF": options}),
        Simulation(world_size=ranks) as simulation,
        attached("meta", simulation.mode, card, world_size=ranks),
    ):
        yield SynchronizingMeter(simulation.mode)


def card_of(parameters: Mapping[str, object]) -> VirtualCard:
    """Return the scenario's card."""
    return VirtualCard.of(card_catalogue.named_card(str(parameters.get("gpu") or DEFAULTS["gpu"])))
