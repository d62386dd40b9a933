"""Stacks and outcomes in words."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.messages import Text, message
from dsregress.model import (
    ADDED,
    AXES,
    Failed,
    MachineFault,
    Outcome,
    OutOfMemory,
    Passed,
    Skipped,
    Stack,
    TimedOut,
    read_signature,
    stack_label,
)
from dsregress.probe.border.faults import INSTRUCTION_LENGTH
from dsregress.wording.quantities import shortened


def varied_axes(stacks: Sequence[Stack]) -> tuple[str, ...]:
    """Return the packages whose versions differ among the stacks (``python`` too), in the order of a stack's id."""
    packages = [a for a in AXES if any(a in s.versions for s in stacks)]
    packages += sorted({name for s in stacks for name in s.versions} - set(AXES))
    axes = [name for name in packages if len({s.versions.get(name, "") for s in stacks}) > 1]
    return (*(("python",) if len({s.python for s in stacks}) > 1 else ()), *axes)


def version_of(stack: Stack, axis: str) -> str:
    """Return the stack's version on one axis; empty if the stack does not have it."""
    return stack.python if axis == "python" else stack.versions.get(axis, "")


def stack_names(stacks: Sequence[Stack]) -> dict[str, str]:
    """Return a short name for each stack id, unique among them: the differing versions, or the stack's label without the
    part that all of them share, which `common_text` returns."""
    pythons = {stack.python.partition("+")[0] for stack in stacks}  # what is installed in one is no reader's version
    axes = tuple(axis for axis in varied_axes(stacks) if axis != "python" or len(pythons) > 1)
    if not axes and len(stacks) == 1 and (own := _package_of_label(stacks[0])) not in ("", "deepspeed"):
        return {stacks[0].id: f"{own} {stacks[0].versions[own]}"}
    axes = axes or tuple(a for a in ("deepspeed",) if stacks and a in stacks[0].versions)
    names = {}
    labels = _labels(stacks)
    for stack in stacks:
        given = "" if _says_no_more(stack, labels[stack.id], axes) else labels[stack.id]
        if len(axes) == 1:
            names[stack.id] = given or version_of(stack, axes[0]) or f"no {axes[0]}"
        else:
            names[stack.id] = (
                given or " ".join(f"{a} {version_of(stack, a)}" for a in axes if version_of(stack, a)) or stack.id
            )
    taken = list(names.values())
    return {key: name if taken.count(name) == 1 else key for key, name in names.items()}


def pins_of(stack: Stack) -> dict[str, str]:
    """Return the packages that the stack's label names with their present version: those that its command fixed, or
    varied."""
    said = {
        pin
        for words in stack.label.removeprefix(stack_label(stack.named, "")).split(ADDED)
        for pin in words.split(", ")
    }
    return {package: version for package, version in stack.versions.items() if f"{package} {version}" in said}


def stored_name(stack: Stack, axis: str) -> str:
    """Return the shortest text by which a command finds a stored stack: ``0.16.4 + trl 0.24.0`` of the default pins, else
    its id."""
    if stack.named or stack.existed or not version_of(stack, axis):
        return stack.id
    added = sorted(stack.versions.keys() - {*AXES, axis})
    return stack_label("", version_of(stack, axis), {package: stack.versions[package] for package in added})


def common_text(stacks: Sequence[Stack]) -> tuple[str, ...]:
    """Return the properties that all stacks share, as far as a reader must know: torch, transformers, and
    `common_additions`."""
    common = _common_versions(stacks)
    usual = (f"{package} {common[package]}" for package in ("torch", "transformers") if package in common)
    return (*usual, *common_additions(stacks))


def common_additions(stacks: Sequence[Stack]) -> tuple[str, ...]:
    """Return the properties that all stacks share and that no name of `stack_names` has: the named stack that they are from,
    ``stack NAME``, and each package beyond the usual ones, ``trl 0.24.0``."""
    named = _common_name(stacks)
    common = _common_versions(stacks)
    added = (f"{package} {common[package]}" for package in sorted(set(common) - set(AXES)))
    return (*([f"stack {named}"] if named else []), *added)


def _labels(stacks: Sequence[Stack]) -> dict[str, str]:
    """Return stack id -> its label, without the named stack and the added packages that all share."""
    named = _common_name(stacks)
    added = {f"{package} {version}" for package, version in _common_versions(stacks).items()}
    labels = {}
    for stack in stacks:
        first, *more = stack.label.removeprefix(stack_label(named, "")).split(ADDED)
        labels[stack.id] = ADDED.join((first, *(one for one in more if one not in added)))
    return labels


def _package_of_label(stack: Stack) -> str:
    """Return the package whose release is a stack's label: it was to be compared. Empty if none is, or several are."""
    text = stack.label.removeprefix(stack_label(stack.named, "")).partition(ADDED)[0]
    own = [package for package, version in stack.versions.items() if version == text]
    return own[0] if len(own) == 1 else ""


def _common_name(stacks: Sequence[Stack]) -> str:
    """Return the named stack that all are from; empty if they are from none, or from several."""
    names = {stack.named for stack in stacks}
    return names.pop() if len(names) == 1 else ""


def _common_versions(stacks: Sequence[Stack]) -> dict[str, str]:
    """Return the packages that all stacks have in the same version."""
    if not stacks:
        return {}
    shared = set.intersection(*(set(stack.versions.items()) for stack in stacks))
    return dict(sorted(shared))


def _says_no_more(stack: Stack, label: str, axes: Sequence[str]) -> bool:
    """Return True if a stack's label is only one of its versions, possibly preceded by the name of the only axis."""
    if label in {"", stack.python, *stack.versions.values()}:
        return True
    return len(axes) == 1 and label == f"{axes[0]} {version_of(stack, axes[0])}"


def outcome_text(outcome: Outcome) -> str:
    """Return `outcome_words` in English."""
    return str(outcome_words(outcome))


def outcome_words(outcome: Outcome) -> Text:
    """Return the outcome in one line: its kind, and its stage."""
    match outcome:
        case Passed():
            return message("passed")
        case Failed(stage="harness", signature=signature):
            return message("failed in the harness: {error}", error=shortened(signature))
        case Failed(stage=stage, signature=signature):
            error = shortened(signature)
            if read_signature(signature).says_what_to_do:  # at its end
                error = shortened(signature, INSTRUCTION_LENGTH)
            return message("failed in {stage}: {error}", stage=stage_words(stage), error=error)
        case OutOfMemory(phase=phase):
            return message("out of memory in {phase}", phase=stage_words(phase)) if phase else message("out of memory")
        case TimedOut(stage=stage, limit_s=limit_s, working=True):
            return message("not done after {seconds:g} s of work in {stage}", seconds=limit_s, stage=stage_words(stage))
        case TimedOut(stage=stage, limit_s=limit_s):
            return message(
                "no sign of life for {seconds:g} s, last seen in {stage}", seconds=limit_s, stage=stage_words(stage)
            )
        case Skipped(reason=reason):
            return message("skipped: {reason}", reason=shortened(reason))
        case MachineFault(stage=stage, fault=fault, signature=signature):
            return message(
                "not measured: {fault} (in {stage}: {error})",
                fault=fault,
                stage=stage_words(stage),
                error=shortened(signature),
            )


_STAGES = {
    one.id: one
    for one in (
        message("install"),
        message("import"),
        message("load"),
        message("init"),
        message("forward"),
        message("backward"),
        message("step"),
        message("generate"),
        message("evaluate"),
        message("save"),
    )
}


def stage_words(stage: str) -> Text:
    """Return the name of a stage or phase in words, which other languages have too."""
    return _STAGES.get(stage, stage)
