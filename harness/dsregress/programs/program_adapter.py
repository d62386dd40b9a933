"""The adapter of programs (see `dsregress.probe.framework`): a program runs itself, so this adapter starts no job.

Parameters of a cell, declared by `dsregress.probe.program.program`:

- ``program``: the launch line, whose ``{name}`` are other parameters;
- ``arguments``: more arguments, appended to the line;
- ``world_size``, and in ``sim`` the simulated ``rank``, or ``all-kinds`` (see `ranks_of`);
- ``gpu`` and ``card``: the GPU that it finds (see `vgpu.device.card.VirtualCard`);
- ``warmup_steps``: optimizer steps before the measured one;
- ``inference``: the program does not train and is measured until it ends; absent if it trains;
- ``tiny``: models are shrunk to a few layers;
- ``synthetic_data``: missing data sets are synthesized;
- ``sources_sha256``: of the program's files, so that a changed program is measured again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsregress.probe.border.encoding import encode
from dsregress.probe.border.faults import HARNESS
from dsregress.probe.border.merging import explanation_file
from dsregress.probe.border.wire import CellRequest, Detail, RankRecord
from dsregress.probe.framework import Meter
from dsregress.probe.holders import sites
from dsregress.probe.process.channel import Channel, pair
from dsregress.probe.process.heartbeat import Heartbeat
from dsregress.probe.process.rank_file import write_record
from dsregress.probe.program import INFERENCE, ranks_of
from vgpu.replacing import variables
from vgpu.trees import remove_tree
from vgpu.whole_files import write_whole

if TYPE_CHECKING:
    from dsregress.programs.watch.kept_steps import KeptSteps
    from dsregress.programs.watch.measured_inference import Inference
    from dsregress.programs.watch.measured_training import Measuring
    from dsregress.programs.watch.observed_rank import ObservedRank
    from dsregress.programs.watch.stepper_facts import NumericsOracle
    from vgpu.device.books import Books
    from vgpu.sim.following import Messages


def preload(device: str) -> None:
    """Import what all programs need, before ranks are forked from this process. Raise what `oldest_torch.check` raises."""
    os.environ["DS_ACCELERATOR"] = {"cpu": "cpu", "sim": "cpu", "cuda": "cuda"}[device]
    import torch

    torch.set_num_threads(1)
    import torch._dynamo

    from dsregress.programs.launch import absent_packages

    absent_packages.watch_absence()

    from dsregress.probe import cuda_wheels, oldest_torch

    oldest_torch.check(device)
    cuda_wheels.import_without_extensions()

    from vgpu import frameworks

    frameworks.import_deepspeed()
    frameworks.import_usual(virtual=device != "cuda")
    import dsregress.probe.oracles.truth
    import dsregress.programs.launch.program_rank

    if device == "cpu":
        import dsregress.programs.truth.program_truth  # noqa: F401
    if device != "cuda":
        import vgpu.attaching  # noqa: F401
    from dsregress.programs.substitutes import needed_skeletons

    needed_skeletons.skeleton_makers()


def world_size(parameters: Mapping[str, Any], device: str) -> int:
    """Return the number of processes of the cell: in ``sim``, the number of simulated ranks."""
    return len(simulated_ranks(parameters)) if device == "sim" else int(parameters["world_size"])


def simulated_ranks(parameters: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the ranks that are simulated, each in a process of its own."""
    return ranks_of(str(parameters["rank"]), int(parameters["world_size"]))


def prepare_run(request: CellRequest, folder: Path) -> None:
    """Make the folder in which all ranks of a run work, before they are forked."""
    from dsregress.programs.world import peer_ranks, workplace

    workplace.make_workplace(folder, _folder(request), request.truths, request.found)
    if request.device == "sim":
        peer_ranks.make_messages_folder(folder, simulated_ranks(request.parameters))


def keep_files(request: CellRequest, folder: Path, ranks: Sequence[RankRecord]) -> None:
    """Keep what the program has written, and what it was fed, if the request has a folder for it. Note what a program that
    goes on from such a folder was fed."""
    from dsregress.programs.watch import resumed_rows
    from dsregress.programs.world import workplace

    if request.kept:
        workplace.keep_files(folder, _folder(request), request.kept)
        resumed_rows.keep_fed_data(ranks, request.kept)
    if request.found:
        resumed_rows.note_resumed_data(ranks, request.found)


def prepare_retry(folder: Path) -> bool:
    """Return True if the cell should be retried because the program needs a column that the synthetic data lacked, or
    lacks one, or a data file. `prepare_run` must then be called again."""
    from dsregress.programs.substitutes import more_columns, synthetic_files
    from dsregress.programs.world import peer_ranks, workplace

    if not (more_columns.has_other_columns(folder) or synthetic_files.has_new_file(folder)):
        return False
    workplace.discard_workplace(folder)
    remove_tree(folder / peer_ranks.NAME)
    return True


def _folder(request: CellRequest) -> str:
    """Return the folder in which the launch line is typed; "" if this machine does not know it. Relative paths start at
    the probe's own copy."""
    folder = request.program_folder
    return os.path.join(Path(__file__).parents[2], folder) if folder else ""


@contextlib.contextmanager
def _meter_and_books(
    parameters: Mapping[str, Any], device: str, messages: Messages | None
) -> Iterator[tuple[Meter, Books]]:
    """Yield the cell's meter and, unless the GPU is real, the books of a virtual GPU. In ``sim``, ``messages`` carries
    what other ranks send."""
    from vgpu import attaching
    from vgpu.device.card import VirtualCard

    rank, ranks = int(os.environ["RANK"]), int(parameters["world_size"])
    card = VirtualCard(**{**parameters["card"], **_tuples(parameters["card"])})
    if device == "sim":
        from vgpu.sim import Simulation

        with (
            Simulation(rank=rank, world_size=ranks) as simulation,
            attaching.attached("meta", simulation.mode, card, rank=rank, world_size=ranks) as books,
        ):
            simulation.mode.following.messages = messages
            yield simulation.meter, books
    else:
        from vgpu.meters.meter import TorchMeter

        meter = TorchMeter(device=device)
        with (
            attaching.attached(device, meter, card, rank=rank, world_size=ranks, ranks_per_node=ranks) as books,
        ):
            yield meter, books


@contextlib.contextmanager
def canary_surroundings(device: str) -> Iterator[str]:
    """Enter what is replaced around a program, and yield the name of its device."""
    from dsregress.programs.launch import program_rank

    parameters = {"world_size": 1, "card": {}, "tiny": True, "synthetic_data": True}
    with (
        variables(dict.fromkeys(("RANK", "LOCAL_RANK"), "0") | {"WORLD_SIZE": "1"}),
        _meter_and_books(parameters, device, None) as (meter, _),
        meter,
        program_rank.canary_surroundings(parameters, contents=device == "cpu"),
    ):
        yield "cuda"


def _tuples(card: Mapping[str, object]) -> dict[str, object]:
    """Turn lists decoded from JSON back into tuples."""
    return {name: tuple(value) for name, value in card.items() if isinstance(value, list)}


def run_rank(
    request: CellRequest,
    rank: int,
    heartbeat: Heartbeat,
    measured: Callable[[RankRecord, Detail], None],
    channel: Channel,
    messages: Messages | None = None,
) -> None:
    """Do all the work of one rank (see `dsregress.probe.process.rank.measure_rank`).

    Call ``measured`` once everything untimed is measured, then run the rounds that the host requests. ``messages`` are
    given only to a rank that is simulated for its messages alone. Exceptions of the program pass through; raise
    ProgramError if it ends too early.
    """
    from dsregress.probe.meters.warning_counts import count_warnings
    from dsregress.programs.launch import failure_causes, program_rank
    from dsregress.programs.watch.measured_inference import Inference
    from dsregress.programs.watch.observed_rank import ObservedRank
    from dsregress.programs.world import workplace

    run_folder = Path.cwd()
    with contextlib.ExitStack() as stack:
        truth, kept = _truth(stack, request, rank, heartbeat)
        if messages is None:  # a rank that is simulated for its messages alone is a fork of one that has entered
            messages = _entered(stack, request, rank)
        warnings = stack.enter_context(count_warnings())
        meter, books = stack.enter_context(_meter_and_books(request.parameters, request.device, messages))
        meter.working = heartbeat.operator_ran
        observer = stack.enter_context(sites.observe_sites(meter, _SELF)) if request.explain else None

        def done() -> None:
            measuring.detail.warnings = dict(warnings)
            measuring.record.notes += books.notes
            if observer is not None:
                observer.measured(measuring.record.phases)
                explanation = observer.explanation(rank, request.room_bytes)
                write_whole(run_folder / explanation_file(rank), encode(asdict(explanation)))
            measured(measuring.record, measuring.detail)

        def keep() -> None:
            measuring.detail.warnings = dict(warnings)
            record = dataclasses.replace(measuring.record, notes=[*measuring.record.notes, *books.notes])
            write_record(run_folder, record, measuring.detail if rank == request.first_rank else None)
            channel.send({"at": "kept"})

        observed = ObservedRank(
            number=rank,
            meter=meter,
            is_simulated=request.device == "sim",
            announce=heartbeat.stage,
            measured=done,
            keep=keep,
            goes_on=lambda: workplace.goes_on(run_folder, request.found),
            observer=observer,
            readings=books.readings,
        )
        measuring = _measuring(request, observed, channel, truth, kept)
        try:
            program_rank.run_program(request.parameters, _folder(request), measuring)
        except Exception as error:  # raised again; only its stage depends on it
            if failure_causes.is_environment_failure(error):
                heartbeat.stage("import")
            raise
        if isinstance(measuring, Inference):
            measuring.finish()
        channel.send({"at": "over"})


def _truth(
    stack: contextlib.ExitStack, request: CellRequest, rank: int, heartbeat: Heartbeat
) -> tuple[NumericsOracle | None, KeptSteps | None]:
    """Return the oracle of a program that trains on real ranks, which repeats it in the run's folder, and what keeps the
    steps that are computed again of a program without an engine: the first and the measured one."""
    if request.device != "cpu" or request.explain or request.parameters.get(INFERENCE):
        return None, None
    from dsregress.programs.truth.program_repeats import repeats_of_rank
    from dsregress.programs.truth.program_truth import ProgramTruth
    from dsregress.programs.truth.step_truth import StepTruth
    from dsregress.programs.watch.kept_steps import KeptSteps

    def beat() -> None:
        heartbeat.stage(HARNESS)

    repeats = repeats_of_rank(Path.cwd(), rank, _repeated(request), _places(request), beat)
    kept = KeptSteps(Path.cwd(), rank, sorted({1, int(request.parameters["warmup_steps"]) + 1}))
    steps = StepTruth(kept, beat)
    return ProgramTruth(stack.enter_context(repeats), rank, steps, request.parameters), kept


def _measuring(
    request: CellRequest,
    observed: ObservedRank,
    channel: Channel,
    truth: NumericsOracle | None,
    kept: KeptSteps | None,
) -> Measuring | Inference:
    from dsregress.programs.watch.measured_inference import Inference
    from dsregress.programs.watch.measured_training import Measuring

    if request.parameters.get(INFERENCE):
        return Inference(observed)
    warmup_steps = int(request.parameters["warmup_steps"])
    runs_on = request.device == "cpu" and not (request.rounds or request.explain)
    return Measuring(
        observed,
        warmup_steps=warmup_steps,
        channel=channel,
        truth=truth,
        kept=kept,
        runs_on=runs_on,
        until_saved=bool(request.kept),  # another line goes on from its files, with the steps that are left
    )


def _entered(stack: contextlib.ExitStack, request: CellRequest, rank: int) -> Messages | None:
    """Enter the program's workplace in the run's folder. Return what carries the messages of a simulated rank."""
    from dsregress.programs.substitutes import synthetic_files
    from dsregress.programs.world import peer_ranks, workplace

    folder = Path.cwd()
    workplace.enter_workplace(folder)
    if request.parameters["synthetic_data"]:
        synthetic_files.write_files(folder)
    if request.device != "sim":
        return None
    return stack.enter_context(peer_ranks.peer_messages(folder / peer_ranks.NAME, rank, _unmeasured(request)))


def _unmeasured(request: CellRequest) -> Callable[[int, Messages], None]:
    """Return the function that runs a rank which is simulated for its messages alone."""

    def run_sender(rank: int, messages: Messages) -> None:
        os.environ["RANK"] = str(rank)
        unexplained = dataclasses.replace(request, explain=False)
        host, channel = pair()
        host.send({"do": "stop"})  # it runs no round
        run_rank(unexplained, rank, Heartbeat(lambda message: None), lambda record, detail: None, channel, messages)

    return run_sender


def _places(request: CellRequest) -> Callable[[Path], None]:
    """Return the function that makes the program's workplace in the folder of a repeat."""

    def make_workplace(folder: Path) -> None:
        from dsregress.programs.world import workplace

        workplace.make_workplace(folder, _folder(request), request.truths, request.found)

    return make_workplace


def _repeated(request: CellRequest) -> Callable[[Mapping[str, Any], int], None]:
    """Return the function with which a rank repeats the program for `truth.program_truth`."""

    def repeat_rank(order: Mapping[str, Any], rank: int) -> None:
        from dsregress.programs.truth import plain_training
        from dsregress.programs.world import workplace

        workplace.enter_workplace(Path.cwd())
        program = request.parameters, _folder(request), rank
        with _meter_and_books(request.parameters, request.device, None) as (meter, _):
            if order["kind"] == "again":
                plain_training.train_again(*program, order["steps"], meter)
                return
            with meter:  # it answers for the card, too: a barrier of NCCL's makes a tensor on it
                if order["kind"] == "begin":
                    plain_training.record_beginning(*program)
                else:
                    names = ("perturbations", "dtype", "starts")
                    plain_training.train_plainly(*program, order["steps"], **{name: order[name] for name in names})

    return repeat_rank


#: Whose code counts as the framework's own (see `dsregress.probe.holders.sites`).
PACKAGE = "deepspeed"


def model(called: object) -> Any:
    """Return the model whose modules have names: ``called`` itself, or the model within the engine that the program
    calls."""
    return called.module if hasattr(called, "module") else called


def holders(called: object) -> Iterator[tuple[str, str, object]]:
    """Yield (category, parameter or "", tensor) for all that an engine holds (see `dsregress.probe.holders.sites`)."""
    from dsregress.probe.frameworks import zero_holders
    from dsregress.programs.watch import stepper_facts

    return zero_holders.held_tensors(called) if stepper_facts.is_engine(called) else iter(())


_SELF = sys.modules[__name__]
