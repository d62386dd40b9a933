"""Every command line that is shown to a user: quoted for a shell, ready to be pasted.

All start with ``dsregress``, which works from the harness's folder in any environment that has it installed.
The tests parse each of them with the commands themselves.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dsregress.model import AXES, Finding, Stack
from dsregress.wording import workload_words
from dsregress.wording.names import pins_of, varied_axes, version_of

_PROGRAM = ("dsregress",)


def _command_line(*words: str) -> str:
    return shlex.join([*_PROGRAM, *words])


AUDIT = _command_line("audit")
AUDIT_FILES = _command_line("audit", "-r", "requirements.txt", "--config", "ds.json")
REGRESS = _command_line("regress")
REGRESS_SOURCE = _command_line("regress", "--source", ".", "--against", "origin/main")
INIT_PROGRAM = _command_line("init", "--program", workload_words.OPEN_LAUNCH_LINE)
SCENARIOS = _command_line("scenarios")
STACKS = _command_line("stacks")
SHOW = _command_line("show")
REMOVE_IMAGES = _command_line("clean", "--images")
REPORT_AS_SITE = _command_line("report", "--html", "DIR")


def regress(
    *,
    releases: Mapping[str, Sequence[str]] = MappingProxyType({}),
    baseline: str = "",
    scenario: str = "",
    variants: Sequence[str] = (),
    device: str = "",
    program: str = "",
) -> str:
    """Return the command that measures these releases of packages, and the baseline. Empty arguments are left to the
    configuration. ``program`` is a launch line."""
    words = ["regress"]
    for package, versions in releases.items():
        if versions:
            words += _releases(package, versions)
    words += [*_option("--baseline", baseline), *_option("--scenario", scenario)]
    for variant in variants:
        words += ["--variant", variant]
    return _command_line(*words, *_option("--device", device), *_option("--program", program))


def measure_again(stack: Stack, baseline: Stack | None, finding: Finding) -> str:
    """Return the command that measures the cell of a finding again, together with the baseline's. One command has the pins
    of one named stack, so a baseline with those of another is left out."""
    if baseline is not None and baseline.named != stack.named:
        baseline = None
    stacks = [baseline, stack] if baseline is not None and baseline.id != stack.id else [stack]
    if any(one.existed for one in stacks):
        return _command_line("regress", *_existing(stacks), *_workload(finding), "--fresh")
    axes = [axis for axis in varied_axes(stacks) if axis != "python"]
    if not axes:
        axes = [axis for axis in ("deepspeed", *AXES, *stack.versions) if axis in stack.versions][:1]
    words = ["regress", *_option("--stack", stack.named)]
    for axis in axes:
        words += _releases(axis, [version_of(measured, axis) for measured in stacks])
    words += _added(stack, axes)
    if baseline is not None and len(axes) == 1:
        words += ["--baseline", version_of(baseline, axes[0])]
    return _command_line(*words, *_workload(finding), "--fresh")


def measure_change(stack: Stack, package: str, finding: Finding, *, against: str, folder: str) -> str:
    """Return the command that measures the cell of a finding again in the checkout of ``package`` in ``folder``, beside the
    commit ``against`` that its change is upon."""
    words = ["regress", "--source", folder, "--against", against, *_option("--stack", stack.named)]
    return _command_line(*words, *_added(stack, (package,)), *_workload(finding), "--fresh")


def explain(cell: str, against: str, *, svg: str = "") -> str:
    """Return the command that explains ``cell`` against ``against``, which are cell ids, or short forms of them (see
    ``explain --help``)."""
    return _command_line("explain", cell, "--against", against, *_option("--svg", svg))


def reproduce(cell: str, metric: str, against: str = "") -> str:
    """Return the command that writes a script for a finding. ``cell`` is VERSION/scenario/variant/device, ``metric`` as
    ``bisect`` takes it."""
    return _command_line("reproduce", cell, "--metric", metric, *_option("--against", against))


def show_named(name: str) -> str:
    """Return the command that prints a stored cell, or an advisory."""
    return _command_line("show", name)


def compare(baseline: str, other: str) -> str:
    """Return the command that compares the stored results of two stacks, each a version or a `stored_name`."""
    return _command_line("compare", baseline, other)


def audit_upgrade(package: str, release: str) -> str:
    """Return the command that puts an upgrade of the user's packages to the advisories."""
    target = release if package == "deepspeed" else f"{package}=={release}"
    return _command_line("audit", "-r", "requirements.txt", "--to", target)


def upgrade_together(source: str, targets: Sequence[str], program: str) -> str:
    """Return the command that measures an upgrade of several packages as they go together. ``source`` is the file of the
    installed ones, ``program`` a launch line, empty for the configured one."""
    words = ["upgrade", "--from", source]
    for target in targets:
        words += ["--to", target]
    return _command_line(*words, "--measure", *_option("--program", program))


def bisect(package: str, good: Stack, bad: Stack, finding: Finding, question: str, *, fixed: bool = False) -> str:
    """Return the command that finds the version of ``package`` that brought a finding, or ended it (``fixed``). The stacks
    differ only in that package."""
    words = ["bisect", *(() if package == "deepspeed" else ("--package", package))]
    words += [*_option("--stack", bad.named), *_workload(finding)]
    words += ["--good", version_of(good, package), "--bad", version_of(bad, package), "--metric", question]
    words += _added(bad, (package,))
    return _command_line(*words, *(["--fixed"] if fixed else []))


def remedies(stack: Stack, finding: Finding, *, card: str = "") -> str:
    """Return the command that measures the gain of each remedy in the release of a finding. Raise KeyError if the stack has
    no DeepSpeed."""
    words = ["remedies", finding.scenario, "--variant", finding.variant, "--device", finding.device]
    words += [*_option("--gpu", card), *_option("--stack", stack.named)]
    if stack.existed:
        return _command_line(*words, *_existing([stack]))
    return _command_line(*words, "--deepspeed", stack.versions["deepspeed"], *_added(stack, ("deepspeed",)))


def recommend(finding: Finding, *, card: str = "") -> str:
    """Return the command that recommends the release to pin for the workload of a finding."""
    return _command_line("recommend", finding.scenario, "--variant", finding.variant, *_option("--gpu", card))


def remedies_of(scenario: str, *, card: str = "") -> str:
    """Return the command that measures the gain of each remedy of a scenario, in the configured release."""
    return _command_line("remedies", scenario, *_option("--gpu", card))


def regress_program(*, package: str = "", releases: Sequence[str] = (), card: str = "") -> str:
    """Return the command that measures a program of the user, in these releases of a package. Only the user knows its launch
    line."""
    words = ["regress", "--program", workload_words.OPEN_LAUNCH_LINE, *_option("--gpu", card)]
    return _command_line(*words, *(_releases(package, releases) if package and any(releases) else ()))


def _option(name: str, value: str) -> tuple[str, ...]:
    return (name, value) if value else ()


def _releases(package: str, versions: Sequence[str]) -> tuple[str, str]:
    """Return ``--deepspeed 0.16.0,0.16.4``; for a package without an option of its own ``--with trl=0.24.0``, ``--with
    trl``."""
    spec = ",".join(dict.fromkeys(one for one in versions if one))
    return (f"--{package}", spec) if package in AXES else ("--with", f"{package}={spec}" if spec else package)


def _added(stack: Stack, axes: Sequence[str]) -> list[str]:
    """Return ``--transformers 4.46.3 --with trl=0.24.0`` for the packages of a stack besides the configured ones and the
    axes."""
    others = sorted((stack.versions.keys() - {*AXES} | pins_of(stack).keys()) - {*axes})
    return [word for package in others for word in _releases(package, [stack.versions[package]])]


def _existing(stacks: Sequence[Stack]) -> list[str]:
    """Return the options of stacks, one of which is an existing interpreter. Its path is not stored."""
    words: list[str] = []
    for one in stacks:
        if one.existed:
            words += ["--python", f"PATH-OF-{one.label or 'PYTHON'}"]
        else:
            words += [word for package, version in one.versions.items() for word in _releases(package, [version])]
    return words


def _workload(finding: Finding) -> tuple[str, ...]:
    return ("--scenario", finding.scenario, "--variant", finding.variant, "--device", finding.device)
