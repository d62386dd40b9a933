"""The scenarios of a folder. Their files are run by a process that must answer for each of them (`harness.probe.declared`):
one that calls ``os._exit(0)``, crashes the interpreter or never ends does not decide how a command ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec

from harness.config.variables import child_environment
from harness.errors import UsageError
from harness.launch.process import how_it_ended
from harness.probe.scenario import Scenario, find

#: How long all files of a folder may take. They declare; a hundred take a second.
_LONGEST_S = 60.0

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from harness.probe.declared import main; main()"

_HINT = "docs/add-a-scenario.md shows one that works"


class _Answer(msgspec.Struct, frozen=True):
    scenario: Scenario | None = None
    error: str = ""


def scenarios(folder: Path) -> dict[str, Scenario]:
    """By name. Raises UsageError naming the file that does not declare one."""
    files = find(folder)
    if not files:
        return {}
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-c", _START, json.dumps(sys.path)],
            input=json.dumps([str(file) for file in files.values()]).encode(),
            env=child_environment(),
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
        printed, how = done.stdout, how_it_ended(done.returncode)
    except subprocess.TimeoutExpired as late:
        printed, how = late.stdout or b"", f"did not end within {_LONGEST_S:g} s"
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
        raise UsageError(f"{unanswered[0]}: does not load: {how}", hint=_HINT)
    return found
