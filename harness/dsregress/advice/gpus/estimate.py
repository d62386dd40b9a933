"""An estimate of how long a step takes on given hardware: a roofline that real kernels reach, times a factor. Pure.

`dsregress.advice.gpus.step_time` says what no release can undercut; this says what to expect. A phase takes

- its floating-point operations at the rate that matrix products reach on the card (`Card.matmul_share`), and after
  them the bytes that other kernels read and write at the rate at which its memory can be read (`MEMORY_SHARE`): eager
  code runs one kernel after another;
- or its collectives at the rate that NCCL reaches (`LINK_SHARE`), where that is longer: they overlap.

What is left out (launches that the GPU waits for, matrices of unfavourable shapes, clocks that the supply holds down,
collectives that nothing hides) is in `FACTORS`, which are calibrated: the median of measured over computed step times of
published jobs, by the cards' architecture. results/accuracy.md has these jobs, and by how much the factor of the others
misses each of them.

A job whose optimizer or weights are on the host is not estimated: it waits for the host's processors, whose speed is
unknown here.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dsregress.advice.gpus import Card
from dsregress.advice.gpus.step_time import (
    GPUS_PER_NODE,
    NETWORK_GBITS_PER_GPU,
    STEP_PHASES,
    link_bytes_per_s,
    on_the_wire_bytes,
)
from vgpu.figures import PhaseReading

#: Of the peak bandwidth of a card's memory, what a plain copy reaches. Assumed.
MEMORY_SHARE = 0.9

#: Of the bandwidth of links, what ring collectives of large messages reach: 78 % of NVLink 3, 80 to 82 % of NVLink 4
#: (https://github.com/stas00/ml-engineering/blob/744d01e/network/README.md).
LINK_SHARE = 0.8

#: Compute capability -> measured over computed step time, the median over the jobs of results/accuracy.md.
FACTORS = {"7.0": 1.90, "8.0": 1.31, "8.6": 1.06, "9.0": 1.45}

#: Of cards of another architecture: the median over all of these jobs.
FACTOR_ELSEWHERE = 1.38

#: By how much an estimate by the factor of the other jobs misses at most, as a share of what was measured: on these
#: architectures, and elsewhere.
LARGEST_ERROR, LARGEST_ERROR_ELSEWHERE = 0.47, 0.41

#: A phase that copies more than this share of what it moves over the host's link computes on the host, or stores there.
_MOST_COPIED = 0.01


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds of one phase, by resource, at rates that real kernels reach."""

    matmul_s: float
    memory_s: float
    communication_s: float

    @property
    def seconds(self) -> float:
        """Return the time of the phase: computation then memory, or communication if that takes longer."""
        return max(self.matmul_s + self.memory_s, self.communication_s)


def rooflines(
    phases: Mapping[str, PhaseReading],
    card: Card,
    dtype: str,
    ranks: int,
    *,
    gpus_per_node: int = GPUS_PER_NODE,
    network_gbits_per_gpu: float = NETWORK_GBITS_PER_GPU,
) -> dict[str, Roofline]:
    """Return phase -> roofline, of forward, backward, step. Empty if the card lacks the dtype, if the job works on the host
    as well, or if an older probe measured, which did not count bytes."""
    peak = card.flops(dtype)
    measured = {phase: phases[phase] for phase in STEP_PHASES if phase in phases}
    if peak is None or not any(reading.moved_bytes for reading in measured.values()):
        return {}
    if any(reading.copied_bytes > _MOST_COPIED * reading.moved_bytes for reading in measured.values()):
        return {}
    link = link_bytes_per_s(card, ranks, gpus_per_node=gpus_per_node, network_gbits_per_gpu=network_gbits_per_gpu)
    return {
        phase: Roofline(
            matmul_s=reading.flops / (peak * card.matmul_share),
            memory_s=reading.moved_bytes / (card.memory_gbs * 1e9 * MEMORY_SHARE),
            communication_s=on_the_wire_bytes(reading, ranks) / (link * LINK_SHARE),
        )
        for phase, reading in measured.items()
    }


def seconds(found: Mapping[str, Roofline], card: Card) -> float | None:
    """Return the estimated seconds of a step, the factor applied; None without rooflines."""
    factor = FACTORS.get(card.compute_capability, FACTOR_ELSEWHERE)
    return factor * sum(one.seconds for one in found.values()) if found else None


def largest_error(card: Card) -> float:
    """Return the largest error of the estimates of published jobs, as a share of the measured time."""
    return LARGEST_ERROR if card.compute_capability in FACTORS else LARGEST_ERROR_ELSEWHERE
