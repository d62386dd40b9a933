"""The other packages to try if a program fails alike in every measured release: it may be written for packages of another
time. Pure."""

from __future__ import annotations

from collections.abc import Collection

from dsregress.compare import Problem
from dsregress.compare.failed_imports import failed_import, is_not_loaded
from dsregress.compare.outcomes import signature_of
from dsregress.model import AXES, Signature, Stack
from dsregress.probe.module_packages import packages_by_module

#: The packages that programs depend on most, if nothing names one.
_USUAL = ("transformers", "accelerate", "torch")

#: So many packages that were added for the program are worth being named too.
_MOST_ADDED = 3

#: Errors in a program's own code that a package of another release raises where it is called. Any other is its own.
OF_A_CALL = frozenset(("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError"))


#: Errors whose line says all: what a program did in place of training, or what it lacks.
_OF_OURS = frozenset(("ProgramError", "CannotRun", "NotHere", "SimulationError"))


def other_packages(problem: Problem, stack: Stack, varied: Collection[str]) -> list[str]:
    """Return the packages of which other releases may pass, of a problem that is a failure; see `packages_to_try`."""
    signature = signature_of(problem.worst.outcome) if problem.worst.outcome is not None else None
    return [] if signature is None else packages_to_try(signature, problem.worst.phase, stack, varied)


def packages_to_try(signature: Signature, stage: str, stack: Stack, varied: Collection[str]) -> list[str]:
    """Return the packages of which other releases may pass, the likeliest first. A failed import names them. Else it is the
    added package whose code failed, or the stack's own, that one first, without those that ``varied``. Empty if a release
    does not import here for any other reason, if the program's own code is wrong, and for a program that hangs."""
    if signature.error in _OF_OURS:
        return []
    missing = failed_import(signature)
    is_known = missing is not None and (missing.package in AXES or missing.is_installed)
    if stage in ("install", "import") and not is_known:
        return []
    if signature.is_of_program and signature.error not in OF_A_CALL:
        return []
    provides = {package: module for module, package in packages_by_module().items()}
    parts = {part: package for package in stack.versions for part in package.split("-")}
    named = {**parts, **{provides.get(package, package.replace("-", "_")): package for package in stack.versions}}
    raised = [named[signature.package]] if signature.package in named else []
    if missing is not None and missing.package in named:
        return list(dict.fromkeys((named[missing.package], *raised)))  # either may be the one of another day
    if missing is not None and missing.is_installed:
        return [missing.package.replace("_", "-")]
    if signature.package and not signature.is_of_program and signature.package not in AXES:
        return [*(("torch",) if is_not_loaded(signature) else ()), *raised]
    added = [package for package in stack.versions if package not in AXES]
    usual = (_USUAL[0], *added, *_USUAL[1:]) if len(added) <= _MOST_ADDED else _USUAL
    return [one for one in dict.fromkeys((*raised, *usual)) if one not in varied]
