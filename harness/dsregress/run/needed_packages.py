"""Packages that a program imports and its stack lacks, found before anything is built, from its source and its stack's lock.

A module counts as lacking only if the package that provides it is known (``module_packages.json``, the project's own
requirements) and not in the lock. What else may be missing is found where the program runs.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dsregress.config.toml_text import parsed_toml
from dsregress.errors import UsageError
from dsregress.probe.launch_line import LaunchLine
from dsregress.probe.program_imports import imports_of_files, own_files
from dsregress.wording.quantities import enumeration
from vgpu.no_stand_in import WITHOUT_STAND_IN

#: Packages that have stand-ins in a run, and those that a run's names are placeholders of.
_PROVIDED = frozenset(
    ("flash-attn", "bitsandbytes", "liger-kernel", "triton", *map(canonicalize_name, WITHOUT_STAND_IN))
)

_MOST_FILES = 5_000


def check_imports(line: LaunchLine, folder: Path, locked: Iterable[str]) -> None:
    """Raise UsageError naming all modules of known packages that the program in ``folder`` imports, and that none of the
    ``locked`` requirements provides, with the options that add them."""
    has = {canonicalize_name(Requirement(text).name) for text in locked}
    wanted: dict[str, Requirement] = {canonicalize_name(one.name): one for one in _requirements(folder)}
    packages = {**_known_packages(), **{_module(name): name for name in wanted}}
    own = _own_names(folder)

    def lacks(module: str) -> bool:
        package = packages.get(module)
        return package is not None and module not in own and package not in has and package not in _PROVIDED

    folders = _folders(line, folder)
    files = own_files(line.program, folders) if line.is_module else [folder / line.program]
    found = imports_of_files(files if not line.is_command else [], folders, lacks)
    modules = sorted({module for _, lacking in found for module in lacking if module not in sys.stdlib_module_names})
    if not modules:
        return
    options = " ".join(_option(packages[module], wanted.get(packages[module])) for module in modules)
    named = enumeration([repr(module) for module in modules])
    raise UsageError(f"{line.program} imports {named}, which the stack lacks", where="--program", hint=f"add {options}")


def _option(package: str, wanted: Requirement | None) -> str:
    """Return the option that adds a package, as the project's requirements pin it."""
    pinned = [each.version for each in wanted.specifier if each.operator == "=="] if wanted is not None else []
    return f"--with {package}={pinned[0]}" if pinned and "*" not in pinned[0] else f"--with {package}"


@functools.cache
def _known_packages() -> dict[str, str]:
    """Return, by module, the packages that are known to provide it."""
    table = json.loads(Path(__file__).with_name("module_packages.json").read_text())
    return {**{_module(name): name for name in table["same"]}, **table["different"]}


def _module(package: str) -> str:
    return package.replace("-", "_").lower()


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
