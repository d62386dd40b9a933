"""The scenarios of a folder. Their files are run by a process that must answer for each of them
(`dsregress.probe.declared`): so a file that calls ``os._exit(0)``, crashes the interpreter or never ends cannot
determine how a command ends, and processes that it starts end with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dsregress.config.variables import child_environment
from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.launch.process import how_it_ended
from dsregress.probe.scenario import Scenario, find
from dsregress.system import kept
from dsregress.system.obstacles import obstacle_error
from dsregress.system.scratch_folders import scratch_folder

#: Seconds that all files of a folder may take. They only declare; a hundred take a second.
_LONGEST_S = 60.0

#: It runs where the command does, as a scenario's folder may be relative; its keeper marks it by a folder of its own.
_START = (
    "import json, os, sys; sys.path[:] = json.loads(sys.argv[1]); os.chdir(sys.argv[2]); "
    "from dsregress.probe.declared import main; main(json.loads(sys.argv[3]))"
)

_HINT = "docs/add-a-scenario.md shows one that works"


class _Answer(msgspec.Struct, frozen=True):
    scenario: Scenario | None = None
    error: str = ""


def declared_scenarios(folder: Path) -> dict[str, Scenario]:
    """Return the scenarios by name. Raise UsageError naming the file that does not declare one, EnvironmentUnavailable."""
    files = find(folder)
    if not files:
        return {}
    printed, how = _ask_process([str(file) for file in files.values()])
    found: dict[str, Scenario] = {}
    for (name, file), line in zip(files.items(), printed.splitlines(), strict=False):
        try:
            answer = msgspec.json.decode(line, type=_Answer)
        except msgspec.DecodeError as error:
            raise UsageError(f"{file}: {error}", hint=_HINT) from None
        if answer.scenario is None:
            raise UsageError(answer.error, hint=_HINT)
        found[name] = answer.scenario
    unanswered = [file for name, file in files.items() if name not in found]
    if unanswered:
        raise UsageError(f"{unanswered[0]}: cannot be loaded: {how}", hint=_HINT)
    return found


def _ask_process(files: Sequence[str]) -> tuple[bytes, str]:
    """Return the process's answers for the files, and how it ended. Raise EnvironmentUnavailable."""
    words = [sys.executable, "-B", "-c", _START, json.dumps(sys.path), os.getcwd(), json.dumps(files)]
    try:
        with scratch_folder() as folder:
            done = kept.run_kept(words, folder=str(folder), environment=child_environment(), timeout_s=_LONGEST_S)
        return done.stdout, how_it_ended(done.returncode)
    except subprocess.TimeoutExpired as late:
        return late.stdout or b"", f"did not end within {_LONGEST_S:g} s"
    except OSError as error:
        hint = "check free disk space and the machine's load"
        raise obstacle_error(
            EnvironmentUnavailable, "scenarios cannot be read", error, where=error.filename or "", hint=hint
        ) from None
