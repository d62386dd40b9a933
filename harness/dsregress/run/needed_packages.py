"""Packages that a program imports and its stack lacks, found before anything is built, from its source and its stack's lock.

A module counts as lacking only if the package that provides it is known (`dsregress.probe.module_packages`, the
project's own requirements) and not in the lock. What else may be missing is found where the program runs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dsregress.config.toml_text import parsed_toml
from dsregress.errors import UsageError
from dsregress.model import AXES
from dsregress.probe import oldest_torch
from dsregress.probe.launch_line import LaunchLine
from dsregress.probe.module_packages import module_named, packages_by_module
from dsregress.probe.program_imports import all_imports, imports_of_files, own_files
from dsregress.wording.quantities import enumeration
from vgpu.no_stand_in import WITHOUT_STAND_IN

#: Packages that have stand-ins in a run, and those that a run's names are placeholders of.
_PROVIDED = frozenset(
    ("flash-attn", "bitsandbytes", "liger-kernel", "triton", *map(canonicalize_name, WITHOUT_STAND_IN))
)

_MOST_FILES = 5_000


def check_imports(line: LaunchLine, folder: Path, locked: Iterable[str], *, makes_up_data: bool = False) -> None:
    """Raise UsageError naming all modules of known packages that the program in ``folder`` imports, and that none of the
    ``locked`` requirements provides, with the options that add them. If there are any, it also names what the project
    requires and its files import under a condition."""
    locked = list(locked)
    needed = lacking_packages(line, folder, locked)
    if not needed:
        return
    options = " ".join(f"--with {spec}" for spec in needed.values())
    data = ", and --synthetic-data if its data sets are not here" if "datasets" in needed and not makes_up_data else ""
    named = enumeration([repr(module) for module in needed])
    wanted: dict[str, Requirement] = {canonicalize_name(one.name): one for one in _requirements(folder)}
    hint = f"add {options}{data}{_pinned_otherwise(wanted, locked)}"
    raise UsageError(f"{line.program} imports {named}, which the stack lacks", where="--program", hint=hint)


def lacking_packages(line: LaunchLine, folder: Path, locked: Iterable[str]) -> dict[str, str]:
    """Return module -> the package that provides it, as ``--with`` has it, for what `check_imports` names: sorted."""
    has = {canonicalize_name(Requirement(text).name) for text in locked}
    wanted: dict[str, Requirement] = {canonicalize_name(one.name): one for one in _requirements(folder)}
    known = {**packages_by_module(), **{module_named(name): name for name in wanted}}
    packages = {**_packages_of_parts(wanted, has), **known}
    own = _own_names(folder)

    def lacks(module: str) -> bool:
        package = packages.get(module)
        if package is None or package in has or package in _PROVIDED or module in sys.stdlib_module_names:
            return False
        return module not in own or (module in known and package in wanted)

    folders = _folders(line, folder)
    files = own_files(line.program, folders) if line.is_module else [folder / line.program]
    found = list(imports_of_files(files if not line.is_command else [], folders, lacks))
    modules = {module for _, lacking in found for module in lacking}
    if not modules:
        return {}
    imported = {
        module for file, _ in found for module in all_imports(file) if lacks(module) and packages[module] in wanted
    }
    needed = sorted(modules | {module for module in imported if not own_files(module, folders)})
    return {module: _spec(packages[module], wanted.get(packages[module])) for module in needed}


def _pinned_otherwise(wanted: Mapping[str, Requirement], locked: Iterable[str]) -> str:
    """Return the options for those packages of every stack that the project pins to other releases than the stack has."""
    has = {str(canonicalize_name(each.name)): each.specifier for each in map(Requirement, locked)}
    pins = {name: _pin(wanted[name]) for name in AXES if name in wanted}
    if pins.get("torch") and oldest_torch.too_old(pins["torch"], "sim"):
        del pins["torch"]
    options = [f"--{name} {pin}" for name, pin in pins.items() if pin and name in has and not has[name].contains(pin)]
    return f"; the project pins {' '.join(options)}" if options else ""


def _pin(wanted: Requirement | None) -> str:
    """Return the one release that a requirement allows; empty if it allows several."""
    pinned = [each.version for each in wanted.specifier if each.operator == "=="] if wanted is not None else []
    return pinned[0] if pinned and "*" not in pinned[0] else ""


def _packages_of_parts(wanted: Iterable[str], has: Iterable[str]) -> dict[str, str]:
    """Return, by module, the required package with the module's name as a part of its own: ``ibm-fms`` for ``fms``."""
    theirs = {module_named(name) for name in has}
    return {part: name for name in wanted for part in name.split("-") if part not in theirs and len(part) > 2}


def _spec(package: str, wanted: Requirement | None) -> str:
    """Return a package as ``--with`` adds it, in the release to which the project's requirements pin it."""
    pin = _pin(wanted)
    return f"{package}={pin}" if pin else package


def _folders(line: LaunchLine, folder: Path) -> list[str]:
    """Return the folders in which the program's own modules are looked for."""
    first = folder if line.is_module else (folder / line.program).parent
    searched = dict(line.variables).get("PYTHONPATH", "").split(os.pathsep)
    return [str(first), *(str(folder / each) for each in searched), str(folder), str(folder / "src")]


def _own_names(folder: Path) -> set[str]:
    """Return the names of the modules and folders of code below ``folder``: a program may add any of those to its path."""
    names: set[str] = set()
    seen = 0
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "site-packages"]
        code = [name.removesuffix(".py") for name in files if name.endswith(".py")]
        if code:
            names.update(code, Path(at).relative_to(folder).parts)
        seen += len(files)
        if seen > _MOST_FILES:
            break
    return names


def _requirements(folder: Path) -> Iterator[Requirement]:
    """Yield the requirements that the project in ``folder`` declares, in ``pyproject.toml`` and ``requirements*.txt``."""
    for text in (*_of_the_project(folder / "pyproject.toml"), *_of_files(sorted(folder.glob("requirements*.txt")))):
        try:
            yield Requirement(text)
        except InvalidRequirement:  # an option of pip's, an address
            continue


def _of_the_project(file: Path) -> list[str]:
    try:
        found = parsed_toml(file.read_text("utf-8")).get("project", {}).get("dependencies", [])
    except (OSError, ValueError, AttributeError):
        return []
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []


def _of_files(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, ValueError):
            continue
        yield from (text for line in lines if (text := re.split(r"(?:^|\s)#|\s--", line)[0].strip()))
