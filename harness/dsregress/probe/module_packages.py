"""The packages that provide a module, as far as they are known. Standard library only: the host names them before an
environment is built, a rank when a module is missing."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

from dsregress.probe.launch_line import LaunchLine

#: The packages of launchers' own commands.
_OF_LAUNCHERS = {"trl": "trl", "llamafactory-cli": "llamafactory"}


@functools.cache
def packages_by_module() -> dict[str, str]:
    """Return, by module, the packages that are known to provide it."""
    table = json.loads(Path(__file__).with_name("module_packages.json").read_text())
    return {**{module_named(name): name for name in table["same"]}, **table["different"]}


def module_named(package: str) -> str:
    """Return the name that a package's module has unless it has another one."""
    return re.sub(r"[-.]", "_", package).lower()


def launched_package(line: LaunchLine) -> str:
    """Return the known package whose command or module a launch line starts; empty for a file, and for another one."""
    if not (line.is_command or line.is_module):
        return ""
    module = module_named(line.program.partition(".")[0]) if line.is_module else module_named(line.program)
    return _OF_LAUNCHERS.get(line.launcher) or packages_by_module().get(module, "")
