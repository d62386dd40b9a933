"""Reasons of a program's failure that its project's files tell in place of its error: a module that the project takes from a
repository, and a release that is older than those that can be measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dsregress.advice.other_packages import packages_to_try
from dsregress.compare.failed_imports import failed_import
from dsregress.model import Failed, Outcome, Stack, read_signature
from dsregress.probe.border.detail_lines import package_refusing
from dsregress.probe.module_packages import module_named
from dsregress.run.program_remedies import Attempt, ReleasesOfItsDay, unknown_modules

#: The package that is compared unless another one is named: beside a release of it, others are pins.
_VARIED = "deepspeed"

#: The stage of a failure that says nothing of a release.
_OF_WHAT_IS_LACKED = "import"


def with_project_reason(outcome: Outcome, attempt: Attempt, stack: Stack, of_its_day: ReleasesOfItsDay) -> Outcome:
    """Return the outcome of an attempt that has no remedy, with the reason that its project's files give; unchanged if they
    give none."""
    if not isinstance(outcome, Failed):
        return outcome
    found = (
        _of_a_repository(outcome, attempt),
        _of_an_old_pin(outcome, attempt, stack),
        _of_an_unbuilt_torch(outcome, attempt, stack, of_its_day),
    )
    reason = next((one for each in found for one in each), "")
    if not reason:
        return outcome
    return Failed(_OF_WHAT_IS_LACKED, f"CannotRun: {reason}", f"{outcome.signature}\n{outcome.detail}".strip())


def _of_a_repository(outcome: Failed, attempt: Attempt) -> Iterator[str]:
    """Yield how to install what a program lacks, and its project takes from a repository."""
    lacking = unknown_modules(read_signature(outcome.signature).message)
    for package in (one for one in attempt.addressed if module_named(one) in lacking):
        address, file = attempt.addressed[package]
        yield (
            f"it lacks {module_named(package)!r}, which its project takes from {address} ({file}): `pip install --no-deps "
            f"--target DIR git+https://{address}`, and write DIR into PYTHONPATH before the line"
        )


def _of_an_old_pin(outcome: Failed, attempt: Attempt, stack: Stack) -> Iterator[str]:
    """Yield which pins cannot be measured, of packages that the failure is of."""
    signature = read_signature(outcome.signature)
    missing = failed_import(signature)
    raised = "" if signature.is_of_program else signature.package
    failing = {missing.package if missing is not None else "", raised, package_refusing(outcome.detail)}
    old = [name for name in attempt.too_old if name.replace("-", "_") in failing]
    for name in old[:1]:
        wanted = attempt.too_old[name]
        pin = wanted.partition("==")[2].partition(" ")[0]
        hint = f": to try that one all the same, give {_options(name, pin, stack)}" if pin else ""
        yield (
            f"its project requires {wanted}, which is too old to be measured, and fails with {name} "
            f"{stack.versions.get(name, '')} ({signature.message[:90]}){hint}"
        )


def _of_an_unbuilt_torch(
    outcome: Failed, attempt: Attempt, stack: Stack, of_its_day: ReleasesOfItsDay
) -> Iterator[str]:
    """Yield which torch may have what the program imports of torchvision or the like, if it is not here for the CPU."""
    signature = read_signature(outcome.signature)
    package = next(iter(packages_to_try(signature, outcome.stage, stack, ())), "")
    if not package.startswith("torch") or "torch" in attempt.choice.versions or attempt.choice.stack:
        return
    found = of_its_day(("torch",))
    if found.unbuilt_torch:
        yield (
            f"{package} {stack.versions.get(package, '')} does not go with it ({signature.message[:90]}), and no index that "
            f"can be reached has torch {found.unbuilt_torch}, of {found.of}, for the CPU: "
            f"{_options('torch', found.unbuilt_torch, stack)} installs its CUDA packages, too"
        )


def _options(package: str, release: str, stack: Stack) -> str:
    """Return the options that pin a package: beside a release of the one that is compared."""
    first = f"--{_VARIED} {stack.versions[_VARIED]} " if _VARIED in stack.versions else ""
    return f"{first}--{package} {release}"
