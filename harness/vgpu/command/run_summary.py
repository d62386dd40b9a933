"""Renders as text what a run's card held."""

from __future__ import annotations

from vgpu.card_room import Certainty, certainty_in_room, outside_range, spare_bytes
from vgpu.figures import PhaseMemory
from vgpu.text_columns import aligned_lines
from vgpu.virtual_gpu import Memory, VirtualGpu

_GIB = 1 << 30
_COLUMNS = ("peak", "at end", "peak", "at end", "peak")


def summary_text(gpu: VirtualGpu) -> str:
    """Return the memory by phase in bytes, the collectives, whether the card is large enough, and what is not in the
    figures."""
    return "\n\n".join(
        "\n".join(part)
        for part in (_phase_table(gpu), _collectives(gpu), _attention(gpu), _room_lines(gpu), _unsupported(gpu))
        if part
    )


def _phase_table(gpu: VirtualGpu) -> list[str]:
    steps = f"{gpu.steps} optimizer step{'s' if gpu.steps != 1 else ''}"
    of = f"; phases of step {gpu.steps}" if gpu.steps else ""
    memory = gpu.memory
    rows: list[tuple[str, Memory | PhaseMemory]] = [*memory.phases.items(), ("whole run", memory)]
    cells = [(name, *(f"{figure:,}" for figure in _figures(one))) for name, one in rows]
    table = [("phase", *_COLUMNS), *cells]
    widths = [max(map(len, column)) for column in zip(*table)]
    groups = (
        "allocated".rjust(widths[1] + 2 + widths[2]), "reserved".rjust(widths[3] + 2 + widths[4]), "host".rjust(widths[5])
    )  # fmt: skip
    return [
        f"rank {gpu.rank} of {gpu.world_size} on {gpu.card.name} ({gpu.card.cuda_name}): {steps}{of}, in bytes",
        "",
        "  ".join(("".ljust(widths[0]), *groups)),
        *aligned_lines(table, "<" + ">" * len(_COLUMNS)),
    ]


def _figures(memory: Memory | PhaseMemory) -> tuple[int, ...]:
    return (
        memory.allocated_peak_bytes, memory.allocated_bytes, memory.reserved_peak_bytes, memory.reserved_bytes,
        memory.host_peak_bytes,
    )  # fmt: skip


def _collectives(gpu: VirtualGpu) -> list[str]:
    found = [
        (phase, kind, f"{count:,}", f"{nbytes:,}")
        for phase, reading in gpu.phases.items()
        for kind, (count, nbytes) in reading.collectives.items()
    ]
    if not found:
        return ["no collectives"] if gpu.world_size > 1 else []
    rows = [("phase", "collective", "calls", "bytes"), *found]
    return aligned_lines(rows, "<<>>")


def _attention(gpu: VirtualGpu) -> list[str]:
    """Return the calls of scaled dot product attention by the kernel that a GPU takes."""
    found = [
        (phase, kernel, f"{calls:,}")
        for phase, reading in gpu.phases.items()
        for kernel, calls in reading.attention.items()
    ]
    return aligned_lines([("phase", "attention", "calls"), *found], "<<>") if found else []


def _room_lines(gpu: VirtualGpu) -> list[str]:
    """Return the verdict whether the run fits the card, and what it rests on."""
    needed, has = gpu.memory.smallest_card_bytes, gpu.card.usable_bytes
    outside = outside_range(spans_nodes=gpu.world_size > gpu.ranks_per_node)
    found = certainty_in_room(needed, has - needed, outside)
    spare = f"fits with less than {spare_bytes(needed) / _GIB:.2f} GiB to spare"
    verdict = spare if found is Certainty.BARELY_FITS else found.value
    least, most = (f"{size / _GIB:.2f}" for size in outside)
    return [
        f"{verdict}: the allocator needs {needed / _GIB:.2f} GiB of the {has / _GIB:.2f} of {gpu.card.name};",
        f"the CUDA context, kernels and NCCL took {least} to {most} GiB more in jobs that were seen",
    ]


def _unsupported(gpu: VirtualGpu) -> list[str]:
    if not gpu.unsupported:
        return []
    return ["not modelled:", *(f"  {text}" for text in gpu.unsupported)]
