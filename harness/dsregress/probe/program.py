"""The declaration of a program as a scenario. Standard library only.

A scenario file of a program::

    from dsregress.probe.program import program
    from dsregress.probe.scenario import one_by_one

    SCENARIO = program(
        version=1,
        summary="Our SFT job.",
        line="accelerate launch --config_file zero3.yaml train.py --lr 1e-5 --batch {batch}",
        folder="~/src/training",
        ranks=8,
        values={"batch": 1},
        variants=one_by_one(batch=(2, 4)),
        packages={"trl": "0.24.0"},
        devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2}},
    )
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dsregress.probe.adapters import PROGRAM
from dsregress.probe.border.masking import masked_launch_line
from dsregress.probe.border.untrusted import read_regular
from dsregress.probe.launch_line import LaunchLine, LaunchLineError, parse
from dsregress.probe.scenario import PACKAGES, Scenario, ScenarioError
from dsregress.probe.shell_syntax import joined
from dsregress.probe.surrounding_folder import folders_above, surrounding_folder

#: The parameters of every program, in addition to its line and ranks; see `dsregress.programs.program_adapter`.
DEFAULTS: Mapping[str, Any] = {
    "arguments": "",
    "gpu": "H100-80G",
    "card": {},
    "rank": "0",
    "warmup_steps": 1,
    "tiny": False,
    "synthetic_data": False,
    "sources_sha256": "",
}

#: The parameter of a program that trains nothing, and is measured until it ends. A program that trains has it if a variant
#: changes it.
INFERENCE = "inference"

#: A parameter in a launch line, which is replaced by its value.
_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")

#: The number of ranks in accelerate's configuration.
_PROCESSES = re.compile(r"""^\s*["']?num_processes["']?\s*:\s*(\d{1,6})\b""", re.MULTILINE)

#: The value of ``rank`` that means ranks of each kind.
ALL_KINDS = "all-kinds"

#: Up to this many ranks, all are simulated.
_FEW_RANKS = 4

#: Files that are a program's own: its code and its settings.
SOURCES = frozenset((".py", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".jinja", ".txt", ".sh"))
LARGEST_SOURCE = 1 << 20
_LARGEST_PROGRAM = 64 << 20  #: a zip file may be one
#: Files whose errors are left to the Python that runs them: its release may read more than ours.
_OF_PYTHON = frozenset((".py", ".pyw", ".pyc", ".pyz", ".zip"))
_MOST_SOURCES = 5_000
#: Folders that an error names.
_MOST_FOLDERS = 3
_LEFT_OUT = frozenset(("__pycache__", "node_modules", "site-packages", "wandb", "runs", "outputs", "results"))


def program(
    *,
    version: int,
    line: str,
    ranks: int | None = None,
    folder: str = ".",
    summary: str = "",
    steps: int = DEFAULTS["warmup_steps"],
    values: Mapping[str, object] | None = None,
    packages: Mapping[str, str] | None = None,
    devices: Mapping[str, Mapping[str, object]] | None = None,
    variants: tuple[Mapping[str, object], ...] = ({},),
    remedies: Mapping[str, Mapping[str, object]] | None = None,
    pins: Mapping[str, Mapping[str, str]] | None = None,
    unused: tuple[str, ...] = (),
    **options: object,
) -> Scenario:
    """Return the scenario of a program. ``steps`` optimizer steps come before the measured one; ``values`` replace
    ``{name}`` in the line, and variants change them; ``packages`` are those of its environment in addition to the stack, by
    name and version (see `dsregress.probe.scenario.PACKAGES`); ``options`` are ``gpu``, ``tiny``, ``synthetic_data``,
    ``rank`` and ``inference``, which means that it trains nothing; the others are those of `Scenario`. Raise
    ScenarioError for an unknown option, a line that launches no program, or a program that cannot be read."""
    line = joined(line)
    shown = masked_launch_line(line)
    parsed = parsed_line(line, values or {})
    known = (*DEFAULTS, INFERENCE)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ScenarioError(f"a program has no {unknown[0]} (known: {', '.join(known)})")
    where = Path(os.path.expanduser(folder)).resolve()
    check(parsed, where)
    world_size = ranks or parsed.ranks or _configured_ranks(where, parsed) or parsed.visible_devices or 1
    ranks_of(str({**DEFAULTS, **options}["rank"]), world_size)
    parameters = {
        **DEFAULTS,
        **options,
        "program": shown,
        "world_size": world_size,
        "warmup_steps": steps,
        "sources_sha256": sources_sha256(parsed, where),
        **({PACKAGES: dict(packages)} if packages else {}),
        **(values or {}),
    }
    return Scenario(
        version=version,
        summary=summary or shown,
        framework=PROGRAM,
        parameters=parameters,
        devices={"sim": {}, "cpu": {}} if devices is None else devices,
        variants=variants,
        remedies=remedies or {},
        pins=pins or {},
        unused=unused,
        folder=str(where),
        line=line,
    )


def _configured_ranks(folder: Path, line: LaunchLine) -> int | None:
    """Return the number of ranks in the configuration that ``accelerate launch`` gets, in YAML or JSON; None if it gives
    none. Raise ScenarioError if it is not a readable file."""
    if not line.configuration:
        return None
    try:
        data = read_regular(folder / os.path.expanduser(line.configuration), LARGEST_SOURCE, follow_links=True)
    except FileNotFoundError:  # accelerate says so
        return None
    except OSError as error:
        raise ScenarioError(f"program: {line.configuration} cannot be read: {error.strerror}") from None
    said = _PROCESSES.search(data.decode("utf-8", "replace"))
    return int(said[1]) or None if said else None


def ranks_of(rank: str, world_size: int) -> tuple[int, ...]:
    """Return the ranks that ``rank`` means: that one, or for ``all-kinds`` the first, the second, the one in the middle and
    the last. Jobs differ between these: the first logs and saves, shares are uneven at the end, and stages and roles have
    ranks of their own in order. Raise ScenarioError if there is no such rank."""
    if rank == ALL_KINDS:
        if world_size <= _FEW_RANKS:
            return tuple(range(world_size))
        return (0, 1, world_size // 2, world_size - 1)
    if not rank.isdecimal() or int(rank) >= world_size:
        raise ScenarioError(f"program: there is no rank {rank} of {world_size}; write one from 0, or {ALL_KINDS}")
    return (int(rank),)


def parsed_line(line: str, values: Mapping[str, object]) -> LaunchLine:
    """Return the parts of a launch line. Raise ScenarioError if it launches no program, or a placeholder has no value."""
    missing = sorted(set(_PLACEHOLDER.findall(line)) - set(values) - set(DEFAULTS))
    if missing:
        raise ScenarioError(f"program: {{{missing[0]}}} has no value")
    try:
        return parse(line)
    except LaunchLineError as error:
        raise ScenarioError(f"program: {error}") from None


def spelled_out(parameters: Mapping[str, object]) -> str:
    """Return the launch line of a cell, with its parameters in place. A value may contain ``{name}`` itself, which stays."""

    def spelled(found: re.Match[str]) -> str:
        value = parameters.get(found[1], found[0])
        return str(value).lower() if isinstance(value, bool) else str(value)

    line = _PLACEHOLDER.sub(spelled, str(parameters["program"]))
    more = str(parameters.get("arguments", ""))
    return f"{line} {more}".strip()


def check(line: LaunchLine, folder: Path) -> None:
    """Raise ScenarioError if the program is a file that does not exist, cannot be read, or is not Python."""
    if line.is_module or line.is_command:
        return
    file = folder / line.program
    if not file.is_file():
        elsewhere = _folders_with(line.program, folder)
        hint = f"; start the line in {' or '.join(elsewhere)}, where there is one" if elsewhere else ""
        raise ScenarioError(f"program: no such file: {line.program} in {folder}{hint}")
    try:
        data = read_regular(file, _LARGEST_PROGRAM, follow_links=True)
        if file.suffix not in _OF_PYTHON and not line.starts_any_file:
            ast.parse(data)
    except OSError as error:
        raise ScenarioError(f"program: {line.program} cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ScenarioError(f"program: {line.program} is no Python; name the script that the line starts") from None


def _folders_with(program: str, folder: Path) -> list[str]:
    """Return the folders of the project, relative to ``folder``, in which a line that names ``program`` could start: a
    README's line often means the folder of its script."""
    ending = Path(program).parts
    below = [file.relative_to(folder).parts for file in _sources(folder)]
    found = [os.path.join(*parts[: -len(ending)]) for parts in below if parts[-len(ending) :] == ending]
    found += [
        os.path.relpath(at, folder) for at in folders_above(Path(os.path.realpath(folder))) if _is_file(at / program)
    ]
    return found[:_MOST_FOLDERS]


def sources_sha256(line: LaunchLine, folder: Path) -> str:
    """Return one hash of the program's code and settings: those files in its folder, or in the surrounding one to which they
    reach, or on the line's ``PYTHONPATH``, the script, and every file that the line names. A data file counts by its size
    and time."""
    named = [folder / word for word in (line.program, *_option_values(line)) if word and not word.startswith("-")]
    total = hashlib.sha256()
    own = _sources(folder)
    if (around := surrounding_folder(folder, own)) != Path(os.path.realpath(folder)):
        own += _sources(around)
    searched = dict(line.variables).get("PYTHONPATH", "").split(os.pathsep)
    own += [file for each in searched if each.startswith("..") for file in _sources(folder / each)]
    for file in dict.fromkeys((*own, *(file for file in named if _is_file(file)))):
        total.update(f"{os.path.relpath(file, folder)}\0{_content(file)}\n".encode(errors="surrogateescape"))
    return total.hexdigest()[:16]


def folder_to_copy(folder: Path) -> Path:
    """Return the folder that each run copies: that of the line, or the surrounding one to which its files reach."""
    return surrounding_folder(folder, _sources(folder))


def _option_values(line: LaunchLine) -> Iterator[str]:
    for word in (*line.options, *line.arguments):
        yield word.partition("=")[2] if word.startswith("-") else word


def _is_file(file: Path | os.DirEntry[str]) -> bool:
    try:
        return file.is_file()
    except (OSError, ValueError):  # a link to itself, a word that no path can be
        return False


def _sources(folder: Path) -> list[Path]:
    found: list[Path] = []
    left = [folder]
    while left and len(found) < _MOST_SOURCES:
        at = left.pop()
        try:
            entries = sorted(os.scandir(at), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _LEFT_OUT:
                continue
            if entry.is_dir(follow_symlinks=False):
                if not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                    left.append(Path(entry.path))
            elif os.path.splitext(entry.name)[1] in SOURCES and _is_file(entry):
                found.append(Path(entry.path))
    return sorted(found)


def _content(file: Path) -> str:
    try:
        about = file.stat()
        if about.st_size > LARGEST_SOURCE:
            return f"{about.st_size} {about.st_mtime_ns}"
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "unreadable"
