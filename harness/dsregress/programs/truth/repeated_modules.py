"""The first module that differs, of a program with an engine of DeepSpeed's: in its repeats with and without DeepSpeed
(`truth.program_repeats`), of which each keeps what the modules of its models give (`watch.module_values`)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from dsregress.probe.border.wire import NO_MODULE
from dsregress.programs.truth import first_module
from dsregress.programs.watch import stepper_facts
from dsregress.programs.watch.module_calls import ModuleCalls, when_left
from dsregress.programs.watch.module_values import ModuleValues, ModuleWatch
from vgpu.whole_files import write_whole


@dataclass
class RepeatedCall:
    """A call of a model in a repeat."""

    step: int
    micro_batch: int
    values: ModuleValues = field(default_factory=ModuleValues)


class RepeatedModules(ModuleCalls):
    """Keeps the calls of models that train, in a repeat, on one rank."""

    def __init__(self, *, locates: bool) -> None:
        self._calls: list[RepeatedCall] = []
        self._locates = locates
        self._step = self._micro_batch = 1
        self._is_inside = False

    def backward_begins(self) -> None:
        """Called before a backward."""
        self._micro_batch += 1

    def stepped(self) -> None:
        """Called after the step that counts."""
        self._step, self._micro_batch = self._step + 1, 1

    def leave(self, folder: Path, rank: int) -> None:
        """Write what was kept into the folder of the repeat."""
        buffer = io.BytesIO()
        torch.save([call for call in self._calls if call.values.arrived], buffer)
        write_whole(_file(folder, rank), buffer.getvalue())

    def _note_call(self, module: torch.nn.Module, inputs: object) -> None:
        if self._is_inside or not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
            return
        if stepper_facts.is_engine(module) or not any(one.requires_grad for one in module.parameters()):
            return
        self._is_inside = True
        watch = ModuleWatch(module, locates=self._locates)
        self._calls.append(RepeatedCall(self._step, self._micro_batch, watch.values))
        watch.begin()

        def left() -> None:
            watch.end()
            self._is_inside = False

        when_left(module, left)


def _file(folder: Path, rank: int) -> Path:
    return folder / f"modules-{rank}.pt"


def first_module_of(own: Path, true: Path, moved: Sequence[Path], ranks: int, rounding: float) -> str:
    """Return what differs first between the repeats in the folders ``own``, with DeepSpeed, and ``true``, without it; in
    those ``moved``, weights are off by a ``rounding``. "" if it is not known, as where they call their models otherwise."""
    folders = (own, true, *moved)
    kept = {rank: [torch.load(_file(folder, rank), weights_only=False) for folder in folders]
            for rank in range(ranks) if all(_file(folder, rank).exists() for folder in folders)}  # fmt: skip
    if not kept or len({len(calls) for of_rank in kept.values() for calls in of_rank}) > 1:
        return ""
    is_known = True
    for number, call in enumerate(kept[min(kept)][0]):
        found = {}
        are_others = False  #: weights, from the first module that returns anything on
        for rank, of_rank in kept.items():
            mine, plain, *others = (calls[number].values for calls in of_rank)
            compared = first_module.ComparedCall(mine, plain, others, rounding, is_scaled=True)
            is_known = is_known and compared.is_known
            if (difference := compared.first()) is not None:
                found[rank] = difference
                are_others = are_others or (difference.is_forward and difference.at == compared.first_return)
        if are_others and call.step > 1:
            before = f"in step {call.step - 1}, and step {call.step} begins with other weights"
            return f"{NO_MODULE}: all inputs, outputs and, but for a common factor, their gradients are equal {before}"
        if found:
            return first_module.in_words(found, ranks, call.micro_batch, call.step)
    return (
        f"{NO_MODULE}: all inputs, outputs and, but for a common factor, their gradients are equal" if is_known else ""
    )
