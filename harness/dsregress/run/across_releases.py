"""A program that goes on from what another release has written: a checkpoint that is saved before an upgrade and loaded
after it, or the other way round.

The first line runs with each release, and what it writes in its folder is kept. The second line then runs with each release
on the files of each: one workload for each release that wrote, so that those that read the same files are compared.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from dsregress.compare import Comparison
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.envs.places import CHECKPOINTS
from dsregress.errors import NothingMeasured
from dsregress.model import WRITTEN_BY, Failed, Stack, split_workload
from dsregress.run import available_workloads, pipeline
from dsregress.run.available_workloads import Program
from dsregress.run.watch import Watch
from dsregress.versions.stack_plans import StackPlan
from dsregress.wording.names import stack_names
from dsregress.wording.quantities import listing
from vgpu.trees import remove_tree

#: What is said of a program that ended without an optimizer step.
_TRAINS_NOTHING = "is measured with --inference"


def regress_across(
    settings: Settings, choice: pipeline.Choice, first: Program, second: str, installer: Installer, watch: Watch
) -> Comparison:
    """Measure a program with each stack, and the launch line ``second`` with each stack on the files that each has written.
    Raise as `pipeline.regress`, and NothingMeasured if no stack writes a file."""
    kept = Path(settings.environments).resolve() / CHECKPOINTS / first.name
    remove_tree(kept)
    writing = msgspec.structs.replace(first, kept=str(kept))
    choice = _choosing(choice, [available_workloads.chosen_workload(None, writing, settings)])
    planned = pipeline.plan_run(settings, choice, installer)
    pipeline.regress(settings, msgspec.structs.replace(choice, fresh=True, explain=False), planned, installer, watch)
    going_on = _programs_going_on(first, second, planned.stacks, kept)
    names = stack_names(planned.stacks.stacks)
    if silent := [names[stack.id] for stack in planned.stacks.stacks if stack.id not in going_on]:
        watch.note(f"nothing goes on from {listing(silent)}: no file was written by the end of the measured step")
    if not going_on:
        hint = "let it save by then (--save_steps 1), in its own folder, or raise --steps"
        raise NothingMeasured("writes no file in its folder", where="--program", hint=hint)
    comparison = _regress_both(settings, choice, first, list(going_on.values()), installer, watch)
    if first.inference or not _train_nothing(comparison, [one.name for one in going_on.values()]):
        return comparison
    watch.note("the second line trains nothing: what it loads, scores and saves is measured until it ends")
    scoring = [msgspec.structs.replace(one, inference=True) for one in going_on.values()]
    return _regress_both(settings, choice, first, scoring, installer, watch)


def _regress_both(
    settings: Settings,
    choice: pipeline.Choice,
    first: Program,
    second: Sequence[Program],
    installer: Installer,
    watch: Watch,
) -> Comparison:
    """Measure the first program, and those that go on from its files."""
    names = [available_workloads.chosen_workload(None, one, settings) for one in second]
    choice = _choosing(choice, [first.name, *names])
    return pipeline.regress(settings, choice, pipeline.plan_run(settings, choice, installer), installer, watch)


def _train_nothing(comparison: Comparison, programs: Collection[str]) -> bool:
    """Return True if runs of these programs ended without an optimizer step, and none trained: others may have failed
    before, as where a release does not load what another has written."""
    workloads = [one for one in comparison.cells.workloads if split_workload(one).scenario in programs]
    outcomes = [
        comparison.ended.get(one, {}).get(stack) for one in workloads for stack in comparison.cells.stacks_of(one)
    ]
    untrained = [one for one in outcomes if isinstance(one, Failed) and _TRAINS_NOTHING in one.signature]
    return bool(untrained) and None not in outcomes


def _choosing(choice: pipeline.Choice, scenarios: Sequence[str]) -> pipeline.Choice:
    selection = msgspec.structs.replace(choice.selection, scenarios=tuple(scenarios))
    return msgspec.structs.replace(choice, selection=selection)


def _programs_going_on(first: Program, second: str, planned: StackPlan, kept: Path) -> Mapping[str, Program]:
    """Return the second program for each stack that has written files, by the stack's id."""
    return {
        stack.id: msgspec.structs.replace(
            first,
            line=f"{WRITTEN_BY}={shlex.quote(_releases_of(stack, planned))} {second}",
            found=str(kept / stack.id),
            kept="",
        )
        for stack in planned.stacks
        if (kept / stack.id).is_dir()
    }


def _releases_of(stack: Stack, planned: StackPlan) -> str:
    """Return what the stack's files are told by: ``transformers-4.57.6``."""
    return "+".join(f"{package}-{stack.versions[package]}" for package in planned.axes) or stack.id
