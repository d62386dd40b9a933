"""Environment variables: those of the caller's that a measured process, an installer and Ray's own processes get."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec


class _Variables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of environment variables: ``variables.toml`` says what each list is for."""

    instruction_sets: tuple[str, ...]
    measured: frozenset[str]
    stack_prefixes: tuple[str, ...]
    installer: frozenset[str]
    installer_prefixes: tuple[str, ...]


_NAMES = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Variables)

INSTRUCTION_SETS = _NAMES.instruction_sets
MEASURED_VARIABLES = _NAMES.measured | frozenset(INSTRUCTION_SETS)
STACK_PREFIXES = _NAMES.stack_prefixes

#: Least and most of a terminal's size: the tables of a report need 40 columns.
_SIZES = {"COLUMNS": (40, 4_000), "LINES": (2, 4_000)}


def child_environment(
    extra: Mapping[str, str] | None = None, *, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a measured process: the allow-listed variables of ours, and ``extra``."""
    variables = os.environ if environ is None else environ
    return {**{name: value for name, value in variables.items() if name in MEASURED_VARIABLES}, **(extra or {})}


def shell_environment(extra: Mapping[str, str], *, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a shell that carries out a line as the user's own would: all of it, and ``extra``."""
    return {**(os.environ if environ is None else environ), **extra}


def withheld(*, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the variables of ours that would change training, and that no measured process gets: sorted names."""
    variables = os.environ if environ is None else environ
    return tuple(sorted(name for name in variables.keys() - MEASURED_VARIABLES if name.startswith(STACK_PREFIXES)))


def models_of_the_user(*, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variable by which a program finds the models that the user has downloaded: huggingface_hub's cache, which
    is read offline."""
    variables = os.environ if environ is None else environ
    home = variables.get("HF_HOME") or os.path.join(variables.get("HOME", ""), ".cache", "huggingface")
    cache = variables.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    return {"HF_HUB_CACHE": os.path.abspath(cache)} if os.path.isdir(cache) else {}


def instruction_sets(*, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return ``NAME=value`` of each of `INSTRUCTION_SETS` that is set."""
    variables = os.environ if environ is None else environ
    return tuple(f"{name}={variables[name]}" for name in INSTRUCTION_SETS if variables.get(name))


def display_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment for the library that draws tables, with plausible terminal sizes. The library takes a size as
    it is written: at COLUMNS=0 it prints nothing, and it fails at texts that Python calls digits but that are no number. So
    sizes that are no number are left out, and those that no terminal has are clipped."""
    variables = dict(os.environ if environ is None else environ)
    for name, (least, most) in _SIZES.items():
        text = variables.pop(name, "")
        if text.isascii() and text.isdigit() and int(text[:9]) > 0:
            variables[name] = str(min(max(int(text[:9]), least), most))
    return variables


def prepare_ray() -> None:
    """Set the variables that Ray reads if it is started here: no usage reports, and cells run at their usual priority."""
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness"):
        os.environ.setdefault(name, "0")


def folder_on_node(configured: str, *, environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of environments and scratch files on a node of a cluster."""
    variables = os.environ if environ is None else environ
    return Path(variables.get("DSREGRESS_ENVIRONMENTS") or configured).expanduser().absolute()


def installer_environment(
    extra: Mapping[str, str] | None = None, *, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of pip and uv: that of `child_environment`, plus the variables that configure them."""
    variables = os.environ if environ is None else environ
    own = {
        name: value
        for name, value in variables.items()
        if name in _NAMES.installer or name.startswith(_NAMES.installer_prefixes)
    }
    return {**child_environment(environ=variables), **own, **(extra or {})}
