"""Simulates one rank of N in one process: the real framework code of a stack, on tensors without storage.

An adapter needs only ``Simulation``::

    simulation = Simulation(rank=0, world_size=32)  # the framework's modules are imported, but it has done nothing yet
    with simulation, simulation.meter as meter:
        ...  # init_distributed, build, initialize, forward, backward, step
"""

from __future__ import annotations

from vgpu.sim.errors import SimulationError
from vgpu.sim.simulation import Simulation

__all__ = ["Simulation", "SimulationError"]
