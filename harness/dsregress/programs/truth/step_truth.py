"""The truth about a program that trains without DeepSpeed: kept steps of it (`watch.kept_steps`), computed again in plain
PyTorch by one process (`truth.plain_steps`).

That process is forked from rank 0 once everything is measured, so that it has the program's models, and may change them.
Each step is judged by itself, from the weights and the optimizer's state that the program had before it. Distances and
tolerances are those of `dsregress.probe.oracles.truth`: gradients are judged as parameters are, as what moves them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from dsregress.probe.border.faults import signal_signature, signature_of
from dsregress.probe.border.wire import NO_MODULE, OF_GLOO, Numerics
from dsregress.probe.harness_fault import HarnessFault
from dsregress.probe.oracles import truth
from dsregress.probe.oracles.reference_training import Trained
from dsregress.probe.oracles.references import Truth, Yardstick
from dsregress.programs.truth import first_module
from dsregress.programs.truth.plain_engine import DTYPES
from dsregress.programs.truth.plain_settings import NoTruth
from dsregress.programs.truth.plain_steps import PlainStep, PlainSteps, Tensors, WholeStep
from dsregress.programs.watch.kept_steps import KeptSteps, kept_file
from vgpu import process_control
from vgpu.whole_files import write_whole

#: A step may take this many times as long to be computed again as the program has run, plus a constant.
_SLOWER, _PATIENCE_S = 3.0, 60.0
_POLL_S = 0.05

#: Gradients that are judged, in the order in which one follows from another, and what precedes the name of the worst.
_KINDS, _FURTHEST = ("gradient", "clipped gradient"), "furthest from the truth: "

#: Up to this share of its size a gradient is told as a multiple of the true one: for words only, no verdict.
_NEARLY = 0.05

#: Says more of a gradient that FSDP2 sums over its ranks on gloo.
_SUMMED = (
    "; it is the sum over the ranks, not their mean: gloo of some releases sums where FSDP2 asks it for a mean, NCCL "
    f"does not, {OF_GLOO}"
)

#: Fields of `Numerics` that the process leaves.
_FIELDS = (
    "true_losses", "true_gradient_norms", "loss_error", "gradient_norm_error", "parameter_error",
    "is_stepwise", "gradient_apart", "first_module", "note",
)  # fmt: skip


class StepTruth:
    """Judges a program on one rank. ``beat`` gives a sign of life."""

    def __init__(self, kept: KeptSteps, beat: Callable[[], None]) -> None:
        self._kept, self._beat = kept, beat
        self._began = time.monotonic()

    def judge(self, numerics: Numerics) -> str:
        """Fill in the truth on rank 0. Return the reason if there is none, else "". Every rank must call it."""
        kept = self._kept
        kept.end()
        kept.folder.mkdir(exist_ok=True)
        write_whole(kept.folder / f"why-{kept.rank}", kept.why)
        if kept.rank != 0:
            return ""
        self._deadline = time.monotonic() + _SLOWER * (time.monotonic() - self._began) + _PATIENCE_S
        why = self._why_of_ranks()
        return why or self._in_a_process(numerics)

    def _why_of_ranks(self) -> str:
        """Wait for all ranks. Return the first reason of any of them."""
        ranks = int(os.environ.get("WORLD_SIZE", "1"))
        for rank in range(ranks):
            while not (self._kept.folder / f"why-{rank}").exists():
                if time.monotonic() > self._deadline:
                    return f"rank {rank} did not keep its steps in time"
                self._await_parts()
            if why := (self._kept.folder / f"why-{rank}").read_text():
                return why
        return ""

    def _in_a_process(self, numerics: Numerics) -> str:
        left = self._kept.folder / "judged.json"
        parent = os.getpid()
        child = os.fork()
        if not child:
            try:
                process_control.die_with_parent(parent)
                _judge_into(left, self._kept, numerics)
            except BaseException as error:  # told by the process that waits
                write_whole(left, json.dumps({"broken": signature_of(error)}))
            finally:
                os._exit(0)
        status = self._waited_for(child)
        if not left.exists():
            how = signal_signature(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else "it ended"
            return f"a step of it was computed again, and {how}"
        found = json.loads(left.read_text())
        if "broken" in found:
            raise HarnessFault(f"the numerics oracle broke: {found['broken']}")
        for name in _FIELDS:
            if name in found:
                setattr(numerics, name, found[name])
        return str(found.get("why", ""))

    def _waited_for(self, child: int) -> int:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
            if time.monotonic() > self._deadline:
                os.kill(child, signal.SIGKILL)
                return os.waitpid(child, 0)[1]
            self._await_parts()

    def _await_parts(self) -> None:
        self._beat()
        time.sleep(_POLL_S)


def _judge_into(left: Path, kept: KeptSteps, numerics: Numerics) -> None:
    """Judge in this process. Write the fields of the numerics, or ``why`` there is no truth: first without the module that
    differs first, for the time that its search takes."""

    def write() -> None:
        write_whole(left, json.dumps({name: getattr(numerics, name) for name in _FIELDS}))

    try:
        steps = _whole_steps(kept)
        plain = PlainSteps(kept, len(steps[0].ranks))
        judge = _Judge(plain.alike(steps), plain, numerics)
        judge.judge()
        if plain.apart and truth.worst(numerics) <= 1:
            raise NoTruth(plain.apart)
    except NoTruth as error:
        write_whole(left, json.dumps({"why": str(error)}))
        return
    write()
    if truth.worst(numerics) > 1:
        with contextlib.suppress(NoTruth):
            judge.name_the_first_module()
            write()


def _whole_steps(kept: KeptSteps) -> list[WholeStep]:
    found = []
    for number in kept.wanted:
        file = kept_file(kept.folder, number, 0)
        if not file.exists():
            continue
        try:
            first = torch.load(file, weights_only=False)
            others = [kept_file(kept.folder, number, rank) for rank in range(1, first.ranks)]
            ranks = [first, *(torch.load(other, weights_only=False) for other in others)]
        except Exception as error:  # of the classes of whatever its models are called with
            raise NoTruth(f"what its model was called with cannot be read again: {signature_of(error)}") from error
        if first.calls:
            found.append(WholeStep(ranks))
    if not found:
        raise NoTruth("no backward goes through a call of its model")
    return found


class _Judge:
    def __init__(self, steps: Sequence[WholeStep], plain: PlainSteps, numerics: Numerics) -> None:
        self._steps, self._plain, self._numerics = steps, plain, numerics
        self._last = max(step.number for step in steps)
        self._wrong: list[tuple[str, WholeStep]] = []  #: weights of the first step whose gradient is wrong

    def judge(self) -> None:
        """Compare with as many yardsticks as the doubt requires. Raise NoTruth."""
        self._numerics.is_stepwise = True
        started, trained = self._sides()
        plain = self._trained(None, started)
        self._dtype = DTYPES.get(self._plain.watched.coarsest, "fp32")
        true = Truth.of(plain)
        yardsticks = [self._yardstick(plain, true)]
        judged = truth.JudgedTraining(dtype=self._dtype, steps=self._last, trained=trained)
        judged.compare(self._numerics, true, yardsticks)
        if truth.worst(self._numerics) > 1 and self._plain.draws_otherwise:
            raise NoTruth("its model draws other random numbers when it is called again")
        while truth.worst(self._numerics) > 1 and (
            len(yardsticks) < truth.YARDSTICKS
            or (truth.worst(self._numerics) < truth.BEYOND_DOUBT and len(yardsticks) < truth.YARDSTICKS_OF_A_SUSPICION)
        ):
            yardsticks.append(self._yardstick(self._trained(len(yardsticks), started), true))
            judged.compare(self._numerics, true, yardsticks)
        if truth.worst(self._numerics) > 1:
            self._name_the_first(judged, true, yardsticks)

    def name_the_first_module(self) -> None:
        """Note the first module that differs. Raise NoTruth."""
        self._numerics.first_module = first_module.first_module(self._steps, self._plain)
        if self._wrong and self._numerics.first_module.startswith(NO_MODULE):
            step = self._wrong[0][1]
            names = [name for name, one in self._wrong if one is step]
            self._numerics.first_module = first_module.module_of_weights(names, len(step.stepped), step)

    def _sides(self) -> tuple[Tensors, Tensors]:
        """Return what is judged, by a name that says what it is: as it was before, and as the program has it after. A
        gradient was zero before."""
        started, trained = {}, {}
        for step in self._steps:
            for name in step.stepped:
                started[_weight(name, step)] = step.before[name].float()
                trained[_weight(name, step)] = step.after[name]
                for kind, tensors in _gradients_of(step).items():
                    named = _gradient(kind, name, step)
                    started[named] = torch.zeros_like(step.before[name], dtype=torch.float32)
                    trained[named] = tensors.get(name, started[named])
        return started, trained

    def _trained(self, seed: int | None, started: Tensors) -> Trained:
        losses, norms = [math.nan] * self._last, [math.nan] * self._last
        after: Tensors = {}
        for step in self._steps:
            made = self._plain.compute(step, seed)
            if step.first.losses:
                losses[step.number - 1] = made.loss
            if self._numerics.gradient_norms[step.number - 1] is not None:
                norms[step.number - 1] = made.norm
            for name in step.stepped:
                after[_weight(name, step)] = made.after[name]
                for kind, tensors in _gradients_of(step, made).items():
                    named = _gradient(kind, name, step)
                    after[named] = tensors.get(name, started[named])
        return Trained(losses, norms, started, after)

    def _yardstick(self, trained: Trained, true: Truth) -> Yardstick:
        """Return a yardstick, whose updates are also off by the rounding of an fp32 weight that is updated."""
        made = Yardstick.of(trained, true)
        rounding = torch.finfo(torch.float32).eps / 2
        for step in self._steps:
            for name in step.stepped:
                named = _weight(name, step)
                if true.moved[named] > 0:
                    made.distances[named] = max(made.distances[named], rounding * true.sizes[named])
        return made

    def _name_the_first(self, judged: truth.JudgedTraining, true: Truth, yardsticks: Sequence[Yardstick]) -> None:
        """Note what is wrong first: a gradient, else one that is clipped, else a weight. Later faults follow from it."""
        for kind in _KINDS:
            of_kind = {name: values for name, values in true.parameters.items() if name.startswith(f"the {kind} of ")}
            found = Numerics(losses=self._numerics.losses, gradient_norms=self._numerics.gradient_norms)
            judged.compare(found, dataclasses.replace(true, parameters=of_kind), yardsticks)
            if (found.parameter_error or 0.0) > 1:
                name = found.note.removeprefix(_FURTHEST)
                own, plain, ranks = judged.trained[name], true.parameters[name], len(self._steps[0].ranks)
                is_sum = ranks > 1 and kind == _KINDS[0] and abs(_share(own, plain) / ranks - 1) < _NEARLY
                self._numerics.note = found.note + (_SUMMED if is_sum and self._plain.asks_gloo_for_means else "")
                self._numerics.gradient_apart = f"{name} is {_ratio(own, plain)}"
                if kind == _KINDS[0]:
                    self._wrong = [
                        (weight, step)
                        for step in self._steps
                        for weight in step.stepped
                        if self._is_wrong(_gradient(kind, weight, step), judged, true, yardsticks)
                    ]
                return

    def _is_wrong(self, name: str, judged: truth.JudgedTraining, true: Truth, yardsticks: Sequence[Yardstick]) -> bool:
        found = Numerics(losses=self._numerics.losses, gradient_norms=self._numerics.gradient_norms)
        judged.compare(found, dataclasses.replace(true, parameters={name: true.parameters[name]}), yardsticks)
        return (found.parameter_error or 0.0) > 1


def _ratio(own: torch.Tensor, true: torch.Tensor) -> str:
    """Return how a tensor differs from the true one."""
    own, true = own.double().reshape(-1), true.double().reshape(-1)
    if not bool(own.any()):
        return "zero or missing, and not zero in plain PyTorch"
    share = _share(own, true)
    rest = float((own - share * true).norm() / own.norm()) if math.isfinite(share) else 1.0
    if rest < _NEARLY:
        return f"{share:.3g} times plain PyTorch's"
    return f"another one than plain PyTorch's, of {float(own.norm() / true.norm()):.3g} times its norm"


def _share(own: torch.Tensor, true: torch.Tensor) -> float:
    """Return how many times the true tensor is in a tensor; infinite if the true one is zero."""
    own, true = own.double().reshape(-1), true.double().reshape(-1)
    return float(own @ true / (true @ true)) if bool(true.any()) else math.inf


def _gradients_of(step: WholeStep, made: PlainStep | None = None) -> dict[str, Tensors]:
    """Return the gradients that are judged, by kind: the program's, or those that plain PyTorch ``made``."""
    source: Any = made or step
    found = {_KINDS[0]: source.gradients}
    if step.first.clips:
        found[_KINDS[1]] = source.used
    return found


def _weight(name: str, step: WholeStep) -> str:
    return f"{name} after step {step.number}"


def _gradient(kind: str, name: str, step: WholeStep) -> str:
    return f"the {kind} of {name} in step {step.number}"
