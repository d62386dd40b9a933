"""The available workloads: the project's scenarios, and the programs that were given on a command line.

A program has a name once it was given (``train-3f9a1c``), and is a scenario by that name from then on, so that the commands
that a report shows need not repeat its launch line. Given programs are kept under the ``environments`` folder. Only the
exact name selects a program: no glob runs one, and no command reads the files of a program that it is not about.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from dsregress.advice import gpus
from dsregress.config.settings import Settings
from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.launch.contract import ProgramLaunch
from dsregress.probe.adapters import PROGRAM
from dsregress.probe.border.masking import masked_launch_line
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.launch_line import LaunchLineError
from dsregress.probe.program import DEFAULTS, INFERENCE, program
from dsregress.probe.scenario import Scenario, ScenarioError
from dsregress.run import scenario_files
from dsregress.system.files import write_atomically
from dsregress.system.obstacles import obstacle_error
from dsregress.wording.workload_words import given_program

_FOLDER = "programs"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The option ``--program`` and its companions."""

    line: str  #: the launch line, as it is typed
    folder: str  #: absolute; where it is typed
    ranks: int | None = None  #: None: as many as the line says, else 1
    gpu: str = DEFAULTS["gpu"]  #: the card that it finds, by its name in the catalogue
    rank: str = DEFAULTS["rank"]  #: the one that is simulated
    steps: int = DEFAULTS["warmup_steps"]  #: optimizer steps before the measured one
    tiny: bool = False
    synthetic_data: bool = False
    inference: bool = False  #: it trains nothing
    found: str = ""  #: folder of files that it finds in its own, besides the user's; of an earlier run
    kept: str = ""  #: folder in which the files that it writes are kept, by stack
    #: path in its folder -> content, of the text files that its script writes before it starts it
    written: tuple[tuple[str, str], ...] = ()

    @property
    def set_options(self) -> dict[str, object]:
        """Options that were given besides the line: the fields that do not have their default."""
        return {
            field.name: value
            for field in msgspec.structs.fields(self)
            if not field.required and (value := getattr(self, field.name)) != field.default
        }

    @property
    def name(self) -> str:
        """``train-3f9a1c``: the program's own name, and a hash of everything that distinguishes two launches. Raises
        UsageError."""
        shown = masked_launch_line(self.line)  # the same with another token
        apart = msgspec.structs.replace(self, line=shown, folder=Path(self.folder).name)  # the same on another machine
        try:
            fields = msgspec.to_builtins(apart)
            del fields["found"], fields["kept"]
            for later in ("inference", "written"):
                if not fields[later]:
                    del fields[later]  # as names were made before there was such a field
            return given_program(shown, msgspec.json.encode(fields))
        except LaunchLineError as error:
            raise _unusable(str(error)) from None


@functools.cache  # it hashes the program's files
def _scenario(given: Program) -> Scenario:
    """Return a program as a scenario. Raise ScenarioError."""
    more: dict[str, Any] = {INFERENCE: True} if given.inference else {}
    scenario = program(
        version=1,
        line=given.line,
        folder=given.folder,
        ranks=given.ranks,
        gpu=given.gpu,
        card=_facts(gpus.card(given.gpu)),
        rank=given.rank,
        steps=given.steps,
        tiny=given.tiny,
        synthetic_data=given.synthetic_data,
        **more,
    )
    if not given.found and not given.written:
        return scenario
    if given.found and not os.path.isdir(given.found):
        raise ScenarioError("program: the files that it goes on from are gone")
    found = str(os.stat(given.found).st_mtime_ns) if given.found else repr(given.written)  # the former anew by each run
    made = f"{scenario.parameters['sources_sha256']} {found}"
    sources = hashlib.sha256(made.encode()).hexdigest()[:16]
    return dataclasses.replace(scenario, parameters={**scenario.parameters, "sources_sha256": sources})


def _facts(card: gpus.Card) -> dict[str, object]:
    """Return a card's facts, see `vgpu.device.card.VirtualCard`."""
    return {
        "name": card.cuda_name,
        "memory_bytes": card.usable_bytes,
        "compute_capability": [int(part) for part in card.compute_capability.split(".")],
        "multiprocessors": card.multiprocessors,
    }


def load_scenarios(settings: Settings, names: Iterable[str] = ()) -> dict[str, Scenario]:
    """Return the project's scenarios by name, and the programs that ``names`` has exactly. Raise UsageError naming the file
    that does not declare a scenario, the program whose files are gone, or the folder that does not exist."""
    found = _declared(settings)
    programs = _programs(settings)
    for name in names:
        if name in programs and name not in found:
            try:
                found[name] = _scenario(programs[name])
            except ScenarioError as error:
                hint = "give it with --program once more"
                raise UsageError(str(error).removeprefix("program: "), where=name, hint=hint) from None
    if not found and not Path(settings.scenarios).is_dir():
        hint = "set `scenarios` in [tool.dsregress] to the folder of your scenarios"
        raise UsageError("the scenarios folder does not exist", where=settings.scenarios, hint=hint)
    return found


def list_scenarios(settings: Settings) -> dict[str, Scenario]:
    """Return the project's scenarios by name, and all programs whose files still exist. Raise UsageError naming the file
    that does not declare a scenario."""
    found = _declared(settings)
    for name, given in _programs(settings).items():
        with contextlib.suppress(ScenarioError, UsageError):  # gone, or changed since: it is no workload any more
            found.setdefault(name, _scenario(given))
    return found


def launches(settings: Settings) -> dict[str, ProgramLaunch]:
    """Return the launch of each workload that is a program, by the workload's name. Raise UsageError."""
    programs = {
        name: ProgramLaunch(given.folder, given.line, given.found, given.kept, given.written)
        for name, given in _programs(settings).items()
    }
    scenarios = {name: ProgramLaunch(found.folder, found.line) for name, found in _declared(settings).items()}
    return {name: launch for name, launch in {**programs, **scenarios}.items() if launch.folder}


def chosen_workload(scenario: str | None, given: Program | None, settings: Settings) -> str:
    """Return the name of the one workload that a command is about: a scenario's, or that of the program, which has one from
    now on. Raise UsageError, EnvironmentUnavailable."""
    if (scenario is None) == (given is None):
        both = "a scenario and --program cannot be combined" if scenario is not None else "no workload"
        raise UsageError(
            both, where="command line", hint="name a scenario or give --program 'torchrun train.py', not both"
        )
    return str(scenario) if given is None else _kept_launch(given, settings)


def measured_workload(scenario: str | None, given: Program | None, settings: Settings) -> str:
    """Return the same as `chosen_workload`, for a command that reads measurements: a program of this launch line and
    folder that was given before, with any ranks and card, unless ``given`` sets them. Raise UsageError, also if several
    were given."""
    if given is None or scenario is not None:
        return chosen_workload(scenario, given, settings)
    wanted = {"folder": given.folder, **given.set_options}
    names = [
        name
        for name, program in _programs(settings).items()
        if masked_launch_line(program.line) == masked_launch_line(given.line)
        and all(getattr(program, option) == value for option, value in wanted.items())
    ]
    if len(names) > 1:
        hint = f"name one of them in place of --program: {', '.join(names)}"
        raise UsageError("was run with several sets of options", where="--program", hint=hint)
    return names[0] if names else _kept_launch(given, settings)


def _kept_launch(given: Program, settings: Settings) -> str:
    if settings.executor != "local":
        hint = "drop --executor: programs run on this machine only"
        raise UsageError(f"cannot use the executor {settings.executor}", where="--program", hint=hint)
    try:
        _scenario(given)
    except ScenarioError as error:
        raise _unusable(str(error).removeprefix("program: ")) from None
    file = Path(settings.environments) / _FOLDER / f"{given.name}.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.encode(given), durable=False, private=True)  # a line may hold a secret
    except OSError as error:
        hint = "free space or set DSREGRESS_ENVIRONMENTS"
        raise obstacle_error(EnvironmentUnavailable, "cannot be written", error, where=file, hint=hint) from None
    return given.name


def _declared(settings: Settings) -> dict[str, Scenario]:
    """Return the project's scenarios by name. Raise UsageError."""
    folder = Path(settings.scenarios)
    changed = tuple((file, file.stat().st_mtime_ns) for file in sorted(folder.glob("*.py")) if file.is_file())
    return dict(_loaded_scenarios(folder, changed))


@functools.lru_cache(maxsize=1)  # a scenario that is a program hashes the program's files
def _loaded_scenarios(folder: Path, changed: tuple[tuple[Path, int], ...]) -> dict[str, Scenario]:
    """Load the scenarios of a folder. ``changed``: its files, and when each changed. Raise UsageError."""
    return {name: _with_card(name, scenario) for name, scenario in scenario_files.declared_scenarios(folder).items()}


def _with_card(name: str, scenario: Scenario) -> Scenario:
    """Return a program's scenario with the facts of its GPU; others unchanged. Raise UsageError for an unknown one."""
    where = f"{name}: gpu"
    if scenario.framework != PROGRAM:
        for values in (scenario.parameters, *scenario.devices.values()):
            if "gpu" in values:
                gpus.card(str(values["gpu"]), where)
        return scenario
    devices = {
        device: {**values, "card": _facts(gpus.card(values["gpu"], where))} if "gpu" in values else values
        for device, values in scenario.devices.items()
    }
    facts = _facts(gpus.card(scenario.parameters["gpu"], where))
    return dataclasses.replace(scenario, parameters={**scenario.parameters, "card": facts}, devices=devices)


def _programs(settings: Settings) -> dict[str, Program]:
    """Return the programs that were given, by name."""
    given = {}
    for file in sorted(Path(settings.environments, _FOLDER).glob("*.json")):
        with contextlib.suppress(OSError, ValueError):  # another release's, or removed meanwhile
            given[file.stem] = msgspec.json.decode(read_regular(file, MOST_FILE_BYTES), type=Program)
    return given


def _unusable(why: str) -> UsageError:
    return UsageError(why, where="--program", hint="see docs/programs.md for the supported launch lines")
