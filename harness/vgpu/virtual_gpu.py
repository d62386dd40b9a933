"""The virtual GPU as a Python program uses it: `attach` and what it yields."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Iterator

from vgpu import card_catalogue, frameworks, no_stand_in
from vgpu.attaching import attached
from vgpu.device.books import Books
from vgpu.device.card import VirtualCard
from vgpu.figures import PhaseMemory, PhaseReading
from vgpu.meters.ledger import HOST, Event
from vgpu.replacing import variables
from vgpu.sim import Simulation, SimulationError
from vgpu.watching.step_recorder import PhaseSpan, StepRecorder, StepsDone


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """The memory of one rank's card. Bytes are those of ``torch.cuda``; peaks are of the whole run, even if the program
    resets its own."""

    allocated_bytes: int
    allocated_peak_bytes: int
    reserved_bytes: int
    reserved_peak_bytes: int
    smallest_card_bytes: int  #: the least room for the allocator in which everything so far completes
    host_bytes: int  #: of tensors in host memory
    host_peak_bytes: int
    phases: dict[str, PhaseMemory]  #: of the last whole step, and of init


class VirtualGpu:
    """One rank's card, while a program runs on it and afterwards."""

    def __init__(
        self, card: card_catalogue.Card, simulation: Simulation, books: Books, unsupported: list[str], steps: int | None
    ) -> None:
        self.card = card
        self.rank, self.world_size = simulation.rank, simulation.world_size
        self.ranks_per_node = simulation.ranks_per_node
        self._mode, self._books, self._missed = simulation.mode, books, unsupported
        self._recorder = StepRecorder(simulation.meter, self._memory_at_end, steps)
        self._ended: Memory | None = None

    @property
    def memory(self) -> Memory:
        """Return the memory as of now or, after the block, as of the program's end."""
        return self._ended or self._memory()

    @property
    def phases(self) -> dict[str, PhaseReading]:
        """Return operators, FLOPs, collectives and requested bytes by phase, of the last whole step and of init."""
        return {
            name: functools.reduce(PhaseReading.folded_with, (span.reading for span in spans))
            for name, spans in self._recorder.phases().items()
        }

    @property
    def unsupported(self) -> list[str]:
        """Return what is not in the figures: remarks on what was not modelled, and what a program missed in a stand-in."""
        read = self._mode.questions.assumed_floats
        values = [f"values: losses and norms are not computed; the program read {read} of them as 1.0"] if read else []
        return [*self._books.notes, *self._missed, *values]

    @property
    def steps(self) -> int:
        """Return the optimizer steps so far, of the optimizer or engine that stepped first."""
        return self._recorder.steps

    @property
    def spans(self) -> list[PhaseSpan]:
        """Return every run of every phase so far, in order."""
        return self._recorder.spans

    @property
    def trace(self) -> list[Event]:
        """Return every allocation and free so far, in order, for `vgpu.replay`."""
        assert self._books.ledger.trace is not None
        trace: list[Event] = self._books.ledger.trace
        return trace

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record the phases of the program that runs within the block, and end it after the steps that were wanted."""
        self._recorder.begin()
        try:
            with self._recorder.watch:
                yield
        except StepsDone:
            pass
        except SimulationError as error:
            self._missed.append(str(error))
            raise
        finally:
            self._recorder.end()
            self._ended = self._memory()

    def _memory(self) -> Memory:
        spans = [span.memory for span in self._recorder.spans]
        now = self._memory_now()
        whole = functools.reduce(PhaseMemory.folded_with, [*spans, now])
        return Memory(
            **dataclasses.asdict(
                dataclasses.replace(whole, smallest_card_bytes=self._mode.reserving.smallest_card_bytes)
            ),
            phases={
                name: functools.reduce(PhaseMemory.folded_with, (span.memory for span in spans))
                for name, spans in self._recorder.phases().items()
            },
        )

    def _memory_now(self) -> PhaseMemory:
        """Return the memory of the open phase so far or, if none is open, of the last one."""
        ledger = self._books.ledger
        ledger.settle()
        self._mode.follow_allocator()
        reserving = self._mode.reserving
        return PhaseMemory(
            allocated_bytes=self._books.allocated(),
            allocated_peak_bytes=reserving.allocated_peak_bytes,
            reserved_bytes=self._books.reserved(),
            reserved_peak_bytes=reserving.reserved_peak_bytes,
            smallest_card_bytes=reserving.needed_bytes,
            host_bytes=ledger.live[HOST],
            host_peak_bytes=ledger.peak[HOST],
        )

    def _memory_at_end(self, reading: PhaseReading) -> tuple[PhaseMemory, int]:
        return self._memory_now(), len(self.trace)


@contextlib.contextmanager
def attach(
    card: str = "H100-80G", rank: int = 0, world_size: int = 1, *, ranks_per_node: int = 8, steps: int | None = None
) -> Iterator[VirtualGpu]:
    """Make this process rank ``rank`` of ``world_size`` within the block, on a virtual ``card``, and yield the card. An
    unmodified CUDA training script runs there: real framework code, on tensors without storage.

    The program runs in this process, with its files: weights that it saves there have no values.

    The program ends after ``steps`` optimizer steps, or by itself. Frameworks that are installed are imported first; do not
    join a process group before. One at a time per process.

    Raise `UnknownCard` (a ValueError) for a card that is not known, SimulationError for a rank that does not exist. Within,
    SimulationError and NoStandInError are raised where a program needs what is not modelled.
    """
    known = card_catalogue.named_card(card)
    with variables({"DS_ACCELERATOR": "cpu"}):
        importlib.import_module("torch._dynamo")
        frameworks.import_deepspeed()
        frameworks.import_usual(virtual=True)
        with contextlib.ExitStack() as stack:
            unsupported: list[str] = []
            stack.enter_context(no_stand_in.reported(lambda said: _once(unsupported, said)))
            simulation = stack.enter_context(Simulation(rank, world_size, ranks_per_node=ranks_per_node))
            books = stack.enter_context(
                attached(
                    "meta",
                    simulation.mode,
                    VirtualCard.of(known),
                    rank=rank,
                    world_size=world_size,
                    ranks_per_node=ranks_per_node,
                )
            )
            gpu = VirtualGpu(known, simulation, books, unsupported, steps)
            with gpu.recording():
                yield gpu


def _once(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)
