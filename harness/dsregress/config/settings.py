"""pyproject.toml, flags and environment variables -> one frozen `Settings`.

Nothing else of the host side reads ``os.environ`` or the settings in ``pyproject.toml``. Where several say the same, a flag
wins over an environment variable, which wins over ``[tool.dsregress]``, which wins over the defaults written here. A project
without a ``pyproject.toml`` has the same table in a file of its own, ``dsregress.toml``.

Variables: ``DSREGRESS_ENVIRONMENTS`` and ``DSREGRESS_RESULTS`` (folders), ``DSREGRESS_OFFLINE`` (1: use no index). Ray's own
``RAY_ADDRESS`` counts where no address is configured, as for Ray itself.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from dsregress.config.audit import AuditSettings
from dsregress.config.containers import Containers
from dsregress.config.job import JobSettings
from dsregress.config.ray import Ray
from dsregress.config.thresholds import Thresholds
from dsregress.config.toml_text import parsed_toml
from dsregress.errors import UsageError, no_such
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular

MOST_ROUNDS = 10_000
MOST_TIMEOUT_S = 30 * 24 * 3600

#: The files that have settings, of which the first that is there counts, and where they are in it.
PYPROJECT, OWN_FILE = "pyproject.toml", "dsregress.toml"
OWN_TABLE = "tool.dsregress"

#: Settings that name a folder.
_FOLDERS = ("scenarios", "results", "reproducers", "environments")

FailOn = Literal["memory", "time", "numerics", "crash"]


class _DefaultStacks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stacks of a project that configures none."""

    stack: dict[str, str | tuple[str, ...]]
    stacks: dict[str, dict[str, str]]


_DEFAULT = msgspec.toml.decode(Path(__file__).with_name("default_stacks.toml").read_bytes(), type=_DefaultStacks)


#: The stack of a project that configures none.
DEFAULT_STACK: Mapping[str, str | tuple[str, ...]] = _DEFAULT.stack


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that the user can configure. Folders are absolute paths."""

    root: str = ""  #: the project's folder; relative paths are relative to it
    baseline: str = "0.15.0"  #: a version of the varied package
    scenarios: str = "scenarios"
    results: str = "results"
    reproducers: str = "results/reproducers"  #: answers of `reproduce`, which reports join with problems
    environments: str = ".dsregress"  #: environments, resolved locks and scratch files
    select: tuple[str, ...] = ("*_zero3_backward/gradient_checkpointing=non_reentrant/cpu",)
    selections: dict[str, tuple[str, ...]] = {}  #: name -> what ``--select NAME`` runs in the place of ``select``
    rounds: int | None = None  #: None: until it is known, within `budget_s`
    budget_s: float = 180.0  #: for the timed rounds of a run
    warmup_rounds: int = 2
    timeout_s: float = 180.0
    fail_on: tuple[FailOn, ...] = ("memory", "time", "numerics", "crash")
    executor: str = "local"  #: a name in `dsregress.run.targets`
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"  #: interpreter of the stacks
    offline: bool = False  #: use no package index
    as_of: str = ""  #: ``2025-02-20``: know no release that was uploaded after that day
    #: package -> spec, or list of specs for the varied one
    stack: dict[str, str | tuple[str, ...]] = msgspec.field(default_factory=_DEFAULT.stack.copy)
    #: name -> what differs from ``stack``
    stacks: dict[str, dict[str, str]] = msgspec.field(default_factory=_DEFAULT.stacks.copy)
    thresholds: Thresholds = Thresholds()
    audit: AuditSettings = AuditSettings()
    job: JobSettings = JobSettings()
    docker: Containers = Containers()
    ray: Ray = Ray()


def read_settings(
    overrides: Mapping[str, object] | None = None,
    *,
    start: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings of the project that contains ``start`` (default: the working directory).

    ``overrides`` has flags by the names of `Settings`; None means that the flag was not given.

    Raise UsageError naming file and key for a malformed, unknown or out-of-range value.
    """
    variables = os.environ if environ is None else environ
    root, file, table = _project(_working_folder() if start is None else start)
    defaults = Settings()
    values = {name: _convert(file, name, value, defaults) for name, value in table.items()}
    if values.get("stack", {}).keys() <= _DEFAULT.stack.keys():  # else it is another framework's
        values["stack"] = {**_DEFAULT.stack, **values.get("stack", {})}
        values["stacks"] = {**_DEFAULT.stacks, **values.get("stacks", {})}
    else:
        values.setdefault("stacks", {})
    for name in ("environments", "results"):
        if variable := variables.get(f"DSREGRESS_{name.upper()}"):
            values[name] = variable
    if offline := variables.get("DSREGRESS_OFFLINE", ""):
        values["offline"] = offline.lower() not in ("0", "false", "no")
    ray = values.get("ray", defaults.ray)
    if not ray.address and (address := variables.get("RAY_ADDRESS")):
        values["ray"] = msgspec.structs.replace(ray, address=address)
    for name, value in (overrides or {}).items():
        if value is not None:
            values[name] = _convert("command line", name, value, defaults)
    if "scenarios" not in values and not (root / "scenarios").is_dir():
        values["scenarios"] = str(_shipped_scenarios())  # those that ship with us
    settings = msgspec.structs.replace(defaults, **values, root=str(root))
    folders = {name: str(root / getattr(settings, name)) for name in _FOLDERS}
    settings = msgspec.structs.replace(settings, **folders)
    _check_settings(settings, file, {name for name, value in (overrides or {}).items() if value is not None})
    return settings


def selecting(settings: Settings, names: Sequence[str]) -> Settings:
    """Return the settings with the named selections in place of a plain run's. Raise UsageError."""
    chosen = dict.fromkeys(glob for name in names for glob in _selection(settings, name))
    return msgspec.structs.replace(settings, select=tuple(chosen))


def _selection(settings: Settings, name: str) -> tuple[str, ...]:
    if name not in settings.selections:
        parts = name.split("/")
        if 1 < len(parts) <= 3:
            options = zip(("--scenario", "--variant", "--device"), parts, strict=False)
            raise UsageError(
                f"{name} is a workload, not a selection",
                where="--select",
                hint=" ".join(f"{option} {shlex.quote(part)}" for option, part in options),
            )
        raise no_such("selection", name, settings.selections, "[tool.dsregress.selections]")
    return settings.selections[name]


def _shipped_scenarios() -> Path:
    """Return the folder of the scenarios that ship with this package, or that its checkout has."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "scenarios"
    return shipped if shipped.is_dir() else package.parents[1] / "scenarios"


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as error:  # another process has removed it
        hint = "change to a folder that exists"
        raise UsageError(f"cannot be found: {error.strerror}", where="working folder", hint=hint) from None


def _project(start: Path) -> tuple[Path, str, dict[str, Any]]:
    """Return folder, file and settings of the nearest project that has some; else of the nearest pyproject.toml."""
    nearest: tuple[Path, str] | None = None
    for folder in (start.resolve(), *start.resolve().parents):
        file, table = own_table(folder)
        if table is not None:
            return folder, str(file), table
        if file is not None:
            nearest = nearest or (folder, str(file))
    folder, name = nearest or (start.resolve(), "defaults")
    return folder, name, {}


def own_table(folder: Path) -> tuple[Path | None, dict[str, Any] | None]:
    """Return the file that has a folder's settings, and the settings. None for settings that are not there, with the
    folder's pyproject.toml, or None if it has none. Raise UsageError."""
    for file in (folder / PYPROJECT, folder / OWN_FILE):
        tool = _toml_file(file).get("tool")
        if isinstance(tool, dict) and "dsregress" in tool:
            if not isinstance(tool["dsregress"], dict):
                raise UsageError("tool.dsregress is not a table", where=str(file), hint=f"write [{OWN_TABLE}]")
            return file, tool["dsregress"]
    return (folder / PYPROJECT if (folder / PYPROJECT).is_file() else None), None


def _toml_file(file: Path) -> dict[str, Any]:
    """Return the content of a file; nothing if it does not exist. Raise UsageError."""
    try:
        if not file.is_file():
            return {}
        return parsed_toml(read_regular(file, MOST_FILE_BYTES, follow_links=True).decode())
    except ValueError as error:
        raise UsageError(f"not valid TOML: {error}", where=str(file), hint="correct that line") from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(file), hint="check its permissions") from None


def _convert(file: str, key: str, value: object, defaults: Settings) -> Any:
    """Return ``value`` as the type that `Settings` declares for ``key``."""
    types = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    del types["root"]
    section = file if file == "command line" else f"{file}: [tool.dsregress]"
    if key not in types:
        raise no_such("key", key, sorted(types), section)
    where = section if file == "command line" else f"{section} {key}"
    try:
        if isinstance(value, dict) and key in ("stack", "stacks"):  # by item, so that the message names the item
            return _convert_table(where, key, value)
        return msgspec.convert(value, int if key == "rounds" else types[key])  # None cannot be written
    except msgspec.ValidationError as error:
        example = 9 if key == "rounds" else msgspec.to_builtins(getattr(defaults, key))
        raise UsageError(_validation_text(error), where=where, hint=f"write it like {json.dumps(example)}") from None


def _convert_table(where: str, key: str, table: dict[str, object]) -> dict[str, object]:
    kind: Any = dict[str, str] if key == "stacks" else str | tuple[str, ...]
    example = '{torch = "2.5.1", deepspeed = "0.16.3"}' if key == "stacks" else '"0.16.4" or ["0.15.0", "0.16.*"]'
    converted: dict[str, Any] = {}
    for name, value in table.items():
        try:
            converted[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise UsageError(
                _validation_text(error), where=f"{where}.{name}", hint=f"write it like {example}"
            ) from None
    return converted


def _validation_text(error: msgspec.ValidationError) -> str:
    return str(error).replace(" - at `$", " at `").replace("at ``", "").replace("`", "").strip()


def _check_settings(settings: Settings, file: str, given: Collection[str]) -> None:
    """Check the values beyond their types. ``given`` are the names of flags. Raise UsageError."""
    for name, allowed in _RANGES.items():
        value = getattr(settings, name)
        if value is not None and not allowed.holds(value):
            where = "command line" if name in given else file
            raise UsageError(f"{name} is not {allowed.words}", where=where, hint=allowed.hint)
    if settings.as_of and not _is_day(settings.as_of):
        where = "command line" if "as_of" in given else file
        raise UsageError(f"as_of is no day: {settings.as_of!r}", where=where, hint="write it like 2025-02-20")
    for name in _FOLDERS:
        if "\0" in getattr(settings, name):
            where = "command line" if name in given else file
            raise UsageError(f"{name} has a NUL in it", where=where, hint="not a valid file name")


def _is_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class _Range(NamedTuple):
    """The values that a setting of numbers may have."""

    holds: Callable[[float], bool]  #: no comparison holds for a NaN
    words: str
    hint: str


#: The upper ends are far beyond use: a larger number is a mistake, and would end in an overflow later.
_SECONDS = _Range(
    lambda value: 0 < value <= MOST_TIMEOUT_S,
    f"above 0, and at most {MOST_TIMEOUT_S:,} (30 days)",
    "give seconds, e.g. 180",
)
_ROUNDS = _Range(lambda value: 0 <= value <= MOST_ROUNDS, f"from 0 to {MOST_ROUNDS:,}", "give rounds, e.g. 9")

_WARMUP_ROUNDS = _ROUNDS._replace(hint="give rounds, e.g. 2")

_RANGES = {"budget_s": _SECONDS, "rounds": _ROUNDS, "warmup_rounds": _WARMUP_ROUNDS, "timeout_s": _SECONDS}
