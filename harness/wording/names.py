"""Stacks and outcomes in words."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model import AXES, Failed, MachineFault, Outcome, OutOfMemory, Passed, Skipped, Stack, TimedOut
from harness.wording.quantities import shortened


def varied_axes(stacks: Sequence[Stack]) -> tuple[str, ...]:
    """The packages whose versions differ among the stacks (``python`` too), in the order of a stack's id."""
    packages = [a for a in AXES if any(a in s.versions for s in stacks)]
    packages += sorted({name for s in stacks for name in s.versions} - set(AXES))
    axes = [name for name in packages if len({s.versions.get(name, "") for s in stacks}) > 1]
    return (*(("python",) if len({s.python for s in stacks}) > 1 else ()), *axes)


def version(stack: Stack, axis: str) -> str:
    """Of one axis; empty where the stack does not have it."""
    return stack.python if axis == "python" else stack.versions.get(axis, "")


def stack_names(stacks: Sequence[Stack]) -> dict[str, str]:
    """A short name for each stack id, unique among them: what differs, or the label of the stack."""
    pythons = {stack.python.partition("+")[0] for stack in stacks}  # what is installed in one is no reader's version
    axes = tuple(axis for axis in varied_axes(stacks) if axis != "python" or len(pythons) > 1)
    axes = axes or tuple(a for a in ("deepspeed",) if stacks and a in stacks[0].versions)
    names = {}
    for stack in stacks:
        given = "" if _says_no_more(stack, axes) else stack.label
        if len(axes) == 1:
            names[stack.id] = given or version(stack, axes[0]) or f"no {axes[0]}"
        else:
            names[stack.id] = (
                given or " ".join(f"{a} {version(stack, a)}" for a in axes if version(stack, a)) or stack.id
            )
    taken = list(names.values())
    return {key: name if taken.count(name) == 1 else key for key, name in names.items()}


def _says_no_more(stack: Stack, axes: Sequence[str]) -> bool:
    """Whether a stack's label says no more than its versions: it is one, also with the name of the only axis before it."""
    if stack.label in {"", stack.python, *stack.versions.values()}:
        return True
    return len(axes) == 1 and not stack.named and stack.label == f"{axes[0]} {version(stack, axes[0])}"


def outcome_text(outcome: Outcome) -> str:
    """One line: what happened, and where."""
    match outcome:
        case Passed():
            return "passed"
        case Failed(stage=stage, signature=signature):
            return f"failed in {stage}: {shortened(signature)}"
        case OutOfMemory(phase=phase):
            return f"out of memory in {phase}"
        case TimedOut(stage=stage, limit_s=limit_s):
            return f"no sign of life for {limit_s:g} s, last seen in {stage}"
        case Skipped(reason=reason):
            return f"skipped: {shortened(reason)}"
        case MachineFault(stage=stage, fault=fault, signature=signature):
            return f"not measured: {fault} (in {stage}: {shortened(signature)})"
