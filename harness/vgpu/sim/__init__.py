"""Simulates one rank of N in one process: the real framework code of a stack, on tensors without storage.

    with Simulation(rank=0, world_size=32) as simulation, attached("meta", simulation.mode, world_size=32), simulation.meter:
        ...  # the framework's modules are imported, but it has done nothing yet

The card is `vgpu.attaching.attached`'s.
"""

from __future__ import annotations

from vgpu.sim.errors import SimulationError
from vgpu.sim.simulation import Simulation

__all__ = ["Simulation", "SimulationError"]
