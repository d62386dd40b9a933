"""The truth about what a program trains: the same program without DeepSpeed, on the same ranks (see `truth`).

The program is repeated in plain PyTorch once it has trained with DeepSpeed (see `program_repeats`). Training that the first
repeat explains is right. If it does not, the program itself is questioned before its framework: does it draw the same
random numbers, does it begin with the same weights, and how far does rounding alone move it? Only what none of these
explains is wrong. It is then repeated with DeepSpeed, too: if that is right, it does not go wrong each time, as with a
race. A training that equals, bit for bit, one of the same program that was right is not judged again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dsregress.probe.border.wire import NO_TRUTH, Numerics
from dsregress.probe.oracles import truth, truth_store
from dsregress.probe.oracles.references import References, Truth, Yardstick
from dsregress.probe.oracles.unbroken import unbroken
from dsregress.programs.truth import plain_training
from dsregress.programs.truth.plain_engine import DTYPES
from dsregress.programs.truth.plain_training import Plain
from dsregress.programs.truth.program_repeats import RepeatFailed, Repeats
from dsregress.programs.truth.repeated_modules import first_module_of
from dsregress.programs.truth.step_truth import StepTruth
from dsregress.programs.watch import stepper_facts
from dsregress.programs.world import random_state

#: A repeat may take this many times as long as the program has, plus a constant.
_SLOWER, _PATIENCE_S = 3.0, 60.0

#: How far rounding may move losses before no verdict is possible, relative to the larger of the losses and the second
#: number: if tokens are sampled, one that differs makes everything after it another problem.
_ILL_CONDITIONED, _NEAR_ZERO = 0.05, 1e-3

_KINDS = {name: kind for kind, name in DTYPES.items()}

#: Fields of the numerics that show what was trained, and those that a judgement fills in.
_TRAINED = ("losses", "gradient_norms", "learning_rates", "parameter_digest")
_ERRORS = ("loss_error", "gradient_norm_error", "parameter_error")
_VERDICT = ("true_losses", "true_gradient_norms", *_ERRORS, "note")


class ProgramTruth:
    """Implements `stepper_facts.NumericsOracle` on one rank, for one run of a program."""

    def __init__(self, repeats: Repeats, rank: int, steps: StepTruth, parameters: Mapping[str, object]) -> None:
        self._repeats, self._rank = repeats, rank
        self._parameters = parameters  #: of the cell, which say what the program is
        self._of_steps = steps  #: of a program without an engine
        self._began = time.monotonic()
        self._random_states: list[str] = []
        self._given: dict[str, Any] = {"dtype": "", "starts": ""}
        self._steps = 0
        self._dtype = ""  #: that the program computes in
        self._last: References  #: that it was compared with
        self._last_plain: tuple[Path, ...] = ()  #: folders of the repeats that made them

    def stepped(self) -> None:
        self._random_states.append(random_state.random_digest())

    def judge(self, stepper: object, trained: Mapping[str, torch.Tensor], numerics: Numerics) -> None:
        why = _without_truth(stepper)
        if not stepper_facts.is_engine(stepper):
            with unbroken("numerics"):
                why = self._of_steps.judge(numerics)
        elif not why and self._rank == 0:
            self._limit_s = _SLOWER * (time.monotonic() - self._began) + _PATIENCE_S
            self._steps = len(numerics.losses)
            try:
                with unbroken("numerics"):
                    why = self._judge_once(trained, numerics)
            finally:
                self._repeats.end()
        elif not why:
            self._repeats.follow()
        if why:
            numerics.true_losses, numerics.true_gradient_norms = [], []
            numerics.loss_error = numerics.gradient_norm_error = numerics.parameter_error = None
            numerics.note = f"{NO_TRUTH}: {why}"

    def _judge_once(self, trained: Mapping[str, torch.Tensor], numerics: Numerics) -> str:
        """Judge by repeats, unless the same training was right before. Return the reason if there is no truth, else ""."""
        kept = truth_store.verdict_file_of(self._parameters, self._same(numerics))
        verdict = truth_store.read_verdict(kept) if kept is not None else None
        if verdict is not None and verdict.keys() == {*_VERDICT}:
            for name, value in verdict.items():
                setattr(numerics, name, value)
            return ""
        why = self._judge_by_repeats(trained, numerics)
        if kept is not None and not why and truth.worst(numerics) <= 1:
            truth_store.write_verdict(kept, {name: getattr(numerics, name) for name in _VERDICT})
        return why

    def _same(self, numerics: Numerics) -> dict[str, object]:
        """Return what two trainings of one program have in common only if they are the same."""
        return {name: getattr(numerics, name) for name in _TRAINED} | {"random_states": self._random_states}

    def _judge_by_repeats(self, trained: Mapping[str, torch.Tensor], numerics: Numerics) -> str:
        """Judge by repeats, and repeat with DeepSpeed what was wrong. Return the reason if there is no truth, else ""."""
        try:
            why = self._judge(trained, numerics)
            if not why and truth.worst(numerics) > 1:
                self._judge_again(numerics)
        except RepeatFailed as error:
            return f"the program was repeated, and {error}"
        return why

    def _judge(self, trained: Mapping[str, torch.Tensor], numerics: Numerics) -> str:
        """Judge the training. Return the reason if there is no truth, else ""."""
        plain = self._plainly()
        unlike = _unlike(plain.trained.start, trained)
        if unlike:
            return f"{unlike} is another parameter with DeepSpeed than without"
        self._dtype, self._last = plain.dtype, _references(plain)
        judged = truth.JudgedTraining(dtype=plain.dtype, steps=self._steps, trained=trained)
        judged.compare(numerics, self._last.true, self._last.yardsticks)
        if truth.worst(numerics) <= 1:
            return ""
        if plain.random_states != self._random_states:
            return "it draws other random numbers with DeepSpeed than without"
        own = self._from_its_own_start(plain) if truth.worst(numerics) >= truth.BEYOND_DOUBT else None
        why = self._with_yardsticks(judged, numerics, own or plain)
        if why or truth.worst(numerics) <= 1 or own is not None:
            return why
        own = self._from_its_own_start(plain)
        return "" if own is plain else self._with_yardsticks(judged, numerics, own)

    def _judge_again(self, numerics: Numerics) -> None:
        """Repeat with DeepSpeed a training that was wrong: note that it is right then, or the first module that differs."""
        try:
            folder = self._repeats.order(self._limit_s, kind="again", steps=self._steps)
        except RepeatFailed:
            return
        again = plain_training.read_repetition(folder)
        repeated = Numerics(losses=again.losses, gradient_norms=again.gradient_norms)
        judged = truth.JudgedTraining(dtype=self._dtype, steps=self._steps, trained=again.parameters)
        judged.compare(repeated, self._last.true, self._last.yardsticks)
        numerics.right_when_repeated = truth.worst(repeated) <= 1
        if not numerics.right_when_repeated:
            ranks, dtype = int(os.environ.get("WORLD_SIZE", "1")), _KINDS[self._dtype]
            true, *moved = self._last_plain
            numerics.first_module = first_module_of(folder, true, moved, ranks, torch.finfo(dtype).eps)

    def _with_yardsticks(self, judged: truth.JudgedTraining, numerics: Numerics, plain: Plain) -> str:
        """Compare with as many yardsticks as the doubt requires. Return the reason if there is no truth, else ""."""
        self._last = references = _references(plain)
        self._last_plain = (plain.folder,)
        true, yardsticks = references.true, references.yardsticks
        judged.compare(numerics, true, yardsticks)
        while truth.worst(numerics) > 1 and (
            len(yardsticks) < truth.YARDSTICKS
            or (truth.worst(numerics) < truth.BEYOND_DOUBT and len(yardsticks) < truth.YARDSTICKS_OF_A_SUSPICION)
        ):
            perturbed = self._plainly(perturbations=len(yardsticks), dtype=plain.dtype)
            self._last_plain += (perturbed.folder,)
            yardsticks.append(Yardstick.of(perturbed.trained, true))
            if _moved(true, yardsticks[-1]):
                return "rounding alone decides what it trains"
            judged.compare(numerics, true, yardsticks)
        return ""

    def _plainly(self, **more: object) -> Plain:
        order = {"kind": "train", "steps": self._steps, "perturbations": None, **self._given, **more}
        return plain_training.read_plain_training(self._repeats.order(self._limit_s, **order))

    def _from_its_own_start(self, plain: Plain) -> Plain:
        """Return the repeat from the weights that the program begins with under DeepSpeed; ``plain`` if they are the
        same."""
        file, own = self._beginning(plain)
        if _are_equal(own, plain.trained.start):
            return plain
        if not _are_equal(self._beginning(plain)[1], own):
            raise RepeatFailed("the weights that it begins with are not the same twice")
        self._given["starts"] = str(file)
        return self._plainly()

    def _beginning(self, plain: Plain) -> tuple[Path, dict[str, torch.Tensor]]:
        """Return the file with the weights that all engines of the program begin with under DeepSpeed, and those of this
        engine."""
        file = self._repeats.order(self._limit_s, kind="begin") / plain_training.FILE
        own = torch.load(file, weights_only=True).get(plain.engine, {})
        return file, {name: own[name].float() for name in plain.trained.start if name in own}


def _references(plain: Plain) -> References:
    """Return the references of plain training, with one yardstick."""
    true = Truth.of(plain.trained)
    return References(true, [Yardstick.of(plain.trained, true)])


def _without_truth(stepper: object) -> str:
    """Return the reason if there can be no truth, else ""."""
    if stepper_facts.is_engine(stepper) and type(stepper).__name__ != "DeepSpeedEngine":
        return f"plain PyTorch has no {type(stepper).__name__}"
    return ""


def _unlike(start: Mapping[str, torch.Tensor], trained: Mapping[str, torch.Tensor]) -> str:
    """Return the first parameter by name that is missing or has another shape; "" if there is none."""
    for name, values in start.items():
        if name not in trained or trained[name].shape != values.shape:
            return name
    return ""


def _are_equal(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.allclose(values, other[name]) for name, values in one.items())


def _moved(true: Truth, yardstick: Yardstick) -> bool:
    return any(
        abs(moved - loss) > _ILL_CONDITIONED * max(abs(moved), abs(loss), _NEAR_ZERO)
        for loss, moved in zip(true.losses, yardstick.losses)
    )
