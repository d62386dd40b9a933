"""The data that cross the border between the host and a measured environment.

Both sides import this module, so it is standard library only. The host reads these dataclasses back with a strict decoder;
the probe writes them with ``json.dumps(dataclasses.asdict(record))``. All sizes are bytes, all times seconds.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from vgpu.figures import MemoryReading, PhaseReading

#: Phases of every run.
REGULAR_PHASES = ("init", "forward", "backward", "step")

#: All phases, in the order in which most programs have them.
PHASES = (
    "load",
    "init",
    "generate",
    "evaluate",
    "reload_states",
    "forward",
    "backward",
    "step",
    "offload_states",
    "save",
)

#: Phases that a program may have in addition, each as long as one call (see `programs.watch.occasion_watch`).
OCCASIONS = tuple(phase for phase in PHASES if phase not in REGULAR_PHASES)

#: How many timeouts a stage may last in which operators run, so that a loop without an end ends.
STAGE_TIMEOUTS = 10

#: How long ranks that wait for one another are waited for, where their timeout is longer.
DEADLOCK_S = 20.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CellRequest:
    """One cell to run, written by the host as ``request.json`` in the run's own folder."""

    scenario: str  #: name of the scenario, the stem of its file
    variant: str
    device: str  #: ``sim``, ``cpu`` or ``cuda``
    parameters: dict[str, Any]  #: the scenario's parameters with the device's and the variant's applied
    framework: str  #: id of the adapter (see `dsregress.probe.adapters`)
    warmup_rounds: int  #: timed rounds that are dropped; 0 where nothing is timed
    rounds: int  #: timed rounds that count, at most; 0 where nothing is timed
    timeout_s: (
        float  #: longest time between two signs of life of the ranks; a stage lasts `STAGE_TIMEOUTS` of them at most
    )
    huge_pages: bool = False  #: timed ranks write in huge pages (see `dsregress.probe.process.placement`)
    short_turns: bool = False  #: timed ranks preempt other processes (see `dsregress.probe.process.scheduling`)
    #: also record who holds the memory, in ``explanation.json`` (see `dsregress.probe.holders.sites`)
    explain: bool = False
    room_bytes: int = 0  #: of an explanation: what the card has for tensors; 0 where no card is known
    #: ``tcp://ADDRESS:PORT``, where ranks that span machines meet; empty where all are on this machine
    rendezvous: str = ""
    first_rank: int = 0  #: of those on this machine
    local_ranks: int = 0  #: how many run on this machine, where they span machines
    program_folder: str = ""  #: where a program's launch line would be typed; empty where the cell is none
    found: str = ""  #: folder whose files a program finds in its own, besides the user's
    kept: str = ""  #: folder in which the files that a program writes in its own are kept; empty: they are discarded
    truths: str = ""  #: folder in which plain PyTorch's training is kept for other releases; empty: it is not kept


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SavedTensors:
    """Tensors that a program has saved, alike except for the numbers in their names."""

    name: str  #: ``model.layers.*.mlp.up_proj.weight``
    dtype: str
    shape: list[int]
    count: int
    mean: float | None = None  #: of the absolute values; None where they are not known


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FedRow:
    """One row of a micro-batch, without its padding. A simulation knows how long it is, and no ids."""

    tokens: int  #: attended to, if there is a mask; else all, padding included
    supervised: int | None = None  #: tokens with a label; None where the model gets none
    ids: str = ""  #: digest
    ids_but_last: str = ""  #: digest
    last: int | None = None  #: the last id
    labels: str = ""  #: digest


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FedBatch:
    """One call of a model that trains: the first one since the last backward."""

    step: int  #: of the optimizer, from 1
    rows: int
    length: int  #: of a row, padding included
    is_masked: bool = False  #: a mask says what is padding
    first_rows: list[FedRow] = dataclasses.field(default_factory=list)
    drawn: list[int] = dataclasses.field(
        default_factory=list
    )  #: rows that data loaders drew since the last one, by index
    #: of each other tensor, by argument, and of each of its first rows: the mean of the absolute values, and a mean of the
    #: values that depends on their order; what a module has computed is left out
    values: dict[str, list[list[float]]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class ResumedData:
    """The data that a program was fed first as it went on from the files of another run, and those that were next."""

    step: int  #: of that run, which was fed them; 0: none that is known
    due: int  #: the step of that run after it had saved

    @property
    def is_right(self) -> bool:
        """True if they were those that were next."""
        return self.step == self.due

    @property
    def steps_apart(self) -> int:
        """Return how far they are from those that were next; the whole way if they are no known ones."""
        return abs(self.due - self.step)


#: The beginning of a `Numerics.note` on why a program's figures are compared only between releases.
NO_TRUTH = "no truth to compare with, only other releases"

#: The `Numerics.note` of a simulation.
NO_VALUES = "a simulation computes no values"

#: The beginning of a `Numerics.first_module` where it goes wrong in none.
NO_MODULE = "no module"

#: The end of a `Numerics.note` on what is wrong as gloo's sums are where FSDP2 asks for means: GPUs need not have it.
OF_GLOO = "so only CPU ranks may have it"

#: Invariants that a `Numerics` may have as ``broken``: gradients are set to zero between steps, a step moves no frozen
#: weight, steps move some weight, and labels are shifted once.
GRADIENTS_KEPT, FROZEN_MOVED, NOTHING_MOVES, SHIFTED_TWICE = "gradients", "frozen", "nothing", "labels"

#: JSON has no infinity: an error this large means that the measured value is not a number.
NO_NUMBER = 1e300


#: Before the name of a buffer where those of weights stand, too.
BUFFER = "buffer "

#: After the name of an embedding where its last row stands alone: what a job adds to a vocabulary is there.
LAST_ROW = " (last row)"


@dataclasses.dataclass(slots=True)
class Numerics:
    """The results of training in its first steps, and their distance from plain PyTorch.

    ``*_error`` is a distance from the same weights and batches trained by plain PyTorch in fp32, divided by the tolerance of
    the dtype (see ``dsregress.probe.oracles.truth``): above 1 is wrong. None without a reference.
    """

    losses: list[float | None] = dataclasses.field(default_factory=list)  #: None: no number
    gradient_norms: list[float | None] = dataclasses.field(default_factory=list)  #: None: no number, or not reported
    #: of each step, of an optimizer's groups, the highest first, each once; of programs
    learning_rates: list[list[float]] = dataclasses.field(default_factory=list)
    #: of each step, the mean over the weights that the optimizer steps, None where it holds none by then; of programs
    weight_bits: list[float | None] = dataclasses.field(default_factory=list)
    dtype: str = ""  #: of the model's weights when they are first trained, the most first: ``uint8, float16``
    #: tensors that may get a gradient, alike but for the numbers in their names -> how many weights; of programs
    trained: dict[str, int] = dataclasses.field(default_factory=dict)
    #: of the weights with which it trains first, mean of the absolute values and number, by names without numbers; likewise
    #: of its buffers of floats, by names that begin with `BUFFER`, and of the last row of each embedding, by names that end
    #: with `LAST_ROW`
    start: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    still: list[str] = dataclasses.field(
        default_factory=list
    )  #: those of them that no step has moved, though it moved others
    parameter_digest: str = ""
    true_losses: list[float | None] = dataclasses.field(default_factory=list)  #: None: nothing is promised
    true_gradient_norms: list[float | None] = dataclasses.field(default_factory=list)  #: None: it is infinite
    loss_error: float | None = None
    gradient_norm_error: float | None = None
    parameter_error: float | None = None
    loss_scales: list[float] = dataclasses.field(default_factory=list)  #: after each step, of an engine that scales
    replicas_apart: int = 0  #: ranks whose weights should be the first one's, and are not; of programs
    apart_in: list[str] = dataclasses.field(default_factory=list)  #: the weights that differ among these ranks
    #: invariants of training that are broken (`GRADIENTS_KEPT` and those beside it) -> names of what shows it; of programs
    broken: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    dropping: list[str] = dataclasses.field(default_factory=list)  #: dropouts that are on in an evaluation; of programs
    skipped_steps: int = 0  #: whose gradients were too large for fp16, so that nothing was trained
    note: str = ""  #: why there is no truth, or which parameter is furthest from it
    #: the truth is of single steps, each from what the program gave its models: what the program itself decides is in it
    is_stepwise: bool = False
    gradient_apart: str = ""  #: how a gradient differs from the true one, if that is what is wrong; of programs
    #: the first module that differs from plain PyTorch where the training is wrong, and how; of programs
    first_module: str = ""
    right_when_repeated: bool = False  #: what went wrong was repeated, and was right then


@dataclasses.dataclass(slots=True)
class RankRecord:
    """All measurements of one rank. If a program trains several models, ``phases`` has those of all of them together and, as
    ``backward of critic``, those of each; and each has numerics of its own."""

    rank: int
    phases: dict[str, PhaseReading] = dataclasses.field(default_factory=dict)
    #: those of them that the measured step did not have: their readings are of the last step that did
    earlier: list[str] = dataclasses.field(default_factory=list)
    init_s: float = 0.0
    numerics: Numerics | None = None  #: None where several models train
    models: dict[str, Numerics] = dataclasses.field(default_factory=dict)  #: by name, where several train
    #: ``backward.device_retained_bytes`` -> term -> bytes: what it had to hold at most (see
    #: ``dsregress.probe.oracles.ideal``)
    ideal: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    ideal_note: str = ""  #: why there is no ideal
    readings: list[MemoryReading] = dataclasses.field(default_factory=list)  #: of a program, in order
    saved: list[SavedTensors] = dataclasses.field(default_factory=list)  #: by a program, until it was measured
    saved_last: list[SavedTensors] = dataclasses.field(
        default_factory=list
    )  #: until it ended, of a program that ran on and ended by itself
    #: files of weights that a program has saved without a tensor, by name, until it was measured
    empty_files: list[str] = dataclasses.field(default_factory=list)
    ended: bool = False  #: a program that ran on has ended by itself
    #: a program has read a state that an earlier run has left to it, before it saved its own; None: there is no such run, or
    #: that is not known
    goes_on: bool | None = None
    resumed: ResumedData | None = None  #: of a program that goes on; None where it is not known
    saved_step: int = 0  #: the optimizer step after which a program has saved last, until it was measured
    steps: int = 0  #: optimizer steps of the model that counts, until such a program ended or was ended
    #: Python objects that live after each step of a program that runs on, without those of before
    live_objects: list[int] = dataclasses.field(default_factory=list)
    #: after each of these steps, bytes of the tensors made since the first of them; empty where steps are slow
    live_tensor_bytes: list[int] = dataclasses.field(default_factory=list)
    resident_bytes: list[int] = dataclasses.field(default_factory=list)  #: likewise, of the process's own memory
    #: losses and gradient norms that a trainer has shown, by call, by name; None is no number
    logged: list[dict[str, float | None]] = dataclasses.field(default_factory=list)
    unsaved: list[str] = dataclasses.field(default_factory=list)  #: trained weights that a model's own files lack
    #: weights that are loaded from a model's own files with other values than it had when it saved itself
    loaded_otherwise: list[str] = dataclasses.field(default_factory=list)
    fed: list[FedBatch] = dataclasses.field(default_factory=list)  #: to a program's models, until it was measured
    #: of the data loader with the most of them: workers, and those whose share of the data had no row
    loader_workers: int = 0
    idle_workers: int = 0
    #: modules of the packages whose objects the workload has made; empty where an older probe measured
    uses: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)  #: what a reader of the figures has to know


@dataclasses.dataclass(slots=True)
class Detail:
    """The explanation of rank 0's figures: large, so it is read only when a figure is to be explained."""

    host_functions: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)  #: phase -> function -> calls
    configuration: dict[str, Any] = dataclasses.field(default_factory=dict)  #: effective, flattened to dotted keys
    warnings: dict[str, int] = dataclasses.field(default_factory=dict)  #: signature -> count
    #: of a program: what its first engine was given, with all that its trainer had filled in, as dotted keys
    deepspeed_config: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class Held:
    """Storages that one place in the code made, of one category and of alike modules."""

    nbytes: int
    count: int  #: of storages
    category: str  #: one of `dsregress.probe.holders.categories`
    module: str  #: path in the model, layers' numbers as ``*``; empty where it is unknown
    site: str  #: ``deepspeed/runtime/zero/partition_parameters.py:1234 in wait``
    via: list[str]  #: the callers of that place, outwards
    born: str  #: the phase they were made in, of whichever step; ``forward 2`` is that of the second micro-batch


@dataclasses.dataclass(slots=True)
class Moment:
    """All storages that are alive on one rank at one moment: at a phase's peak, or at its end. The bytes of ``held`` add
    up to ``nbytes``."""

    rank: int  #: the one that holds most
    nbytes: int
    held: list[Held]


@dataclasses.dataclass(slots=True)
class Stretch:
    """Live device bytes through one phase of the step: every local extreme at this resolution."""

    phase: str
    points: list[list[int]]  #: [thousandths of the phase's allocations and frees, bytes]


@dataclasses.dataclass(slots=True, kw_only=True)
class Refusal:
    """The first request of the run that a card cannot serve, as torch's message has it; nothing of what follows it ran."""

    room_bytes: int  #: what the card has for tensors
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int  #: after the allocator gave back all that it could
    phase: str = ""
    module: str = ""  #: as of `Held`, with the next two
    site: str = ""
    via: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Explanation:
    """The holders of the memory in the measured step."""

    moments: dict[str, Moment] = dataclasses.field(default_factory=dict)  #: by metric: ``backward.device_peak_bytes``
    timeline: list[Stretch] = dataclasses.field(default_factory=list)  #: of the rank with the highest peak, in order
    note: str = ""  #: why something is missing
    refusal: Refusal | None = None  #: None where the card serves all requests, or no card is known


@dataclasses.dataclass(slots=True)
class Clocks:
    """A GPU's clocks in one timed round, and why they are not higher (names as in `dsregress.probe.gpu.boards`)."""

    sm_mhz: int
    memory_mhz: int
    reasons: list[str]
    throttled: bool  #: by heat or by the power supply: the round says nothing about the code


@dataclasses.dataclass(slots=True)
class RoundCost:
    """The cost of one timed round to the host, all ranks and their threads together, and its disturbances."""

    processor_s: float  #: user and system; what waits or sleeps costs none
    page_faults: int  #: pages that had to be mapped or read
    waits: int  #: context switches of a thread that waited for something
    preemptions: int  #: context switches because something else was to run: the machine was busy


@dataclasses.dataclass(slots=True)
class RunRecord:
    """The record of one execution of a cell, written by the probe as ``record.json``, whole or not at all."""

    #: ``passed``, ``failed``, ``out_of_memory``, ``machine_fault``, or one that took too long: ``timed_out`` (silent),
    #: ``deadlocked`` (its ranks waited for one another), ``still_working``
    outcome: str
    stage: str = ""  #: where it ended when it did not pass: import, init, forward, backward, step, ...
    signature: str = ""  #: one short line that is the same for the same fault
    machine_fault: str = (
        ""  #: what is wrong with the machine, where that ended it (see `dsregress.probe.border.machine`)
    )
    log_tail: str = ""  #: the end of the traceback or log
    #: of a cell that was silent or worked for too long: which ranks were where (see `dsregress.probe.process.whereabouts`)
    whereabouts: list[str] = dataclasses.field(default_factory=list)
    import_s: float = 0.0
    world_size: int = 0  #: of the job; in ``sim`` the ranks that are simulated
    ranks: list[RankRecord] = dataclasses.field(default_factory=list)
    round_s: list[float] = dataclasses.field(default_factory=list)  #: timed rounds in order, slowest rank of each
    costs: list[RoundCost] = dataclasses.field(default_factory=list)  #: of these rounds
    #: of these rounds, those of the rank that was clocked lowest; empty where no GPU reports them
    clocks: list[Clocks] = dataclasses.field(default_factory=list)
    discarded_rounds: int = 0  #: throttled ones that were thrown away and run again
    detail: Detail | None = None
