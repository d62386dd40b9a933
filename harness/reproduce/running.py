"""Running a script in the environment of a release, and reading what it shows."""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.config.settings import Settings
from harness.config.variables import child_environment
from harness.errors import EnvironmentUnavailable, NothingMeasured
from harness.launch.local import caches_of
from harness.model import Environment, Verdict
from harness.probe.border.faults import stable
from harness.probe.border.surroundings import ENVIRONMENT
from harness.probe.border.trees import remove_tree
from harness.reproduce.script import HANGS, Script
from harness.system import kept
from harness.system.kept import Kept
from harness.wording.names import outcome_text
from harness.wording.quantities import shortened

#: A script takes seconds once the framework is imported, which takes a minute where other work keeps the machine busy.
_LIMIT_S = 600.0

#: Of a script of a hang: ranks whose collectives do not match hang in most runs, not in all.
_RUNS_OF_A_HANG = 3

#: An exception's own line in a traceback: its class, with its module but for Python's own, and the message.
_EXCEPTION = re.compile(r"(?P<kind>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:: .*)?")

#: A terminal's colors and styles, which torch has in some messages wherever they go.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")

#: What torchrun's report says of a rank that a signal ended.
_SIGNAL = re.compile(r"(?P<text>Signal (?P<number>\d+) \(SIG\w+\)) received by PID")

#: What torchrun itself ends the other ranks with, once one has failed.
_SIGTERM = 15


class ScriptRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a script did in one release."""

    version: str  #: of the package that the releases differ in
    answer: Verdict  #: Bad where it shows the fault
    exit_code: int | None  #: None: it did not end, or did not run
    line: str  #: its line of output; what ended it, where it has none; a short form of either
    printed: str = ""  #: its line of output as it is


def run(
    script: Script,
    environment: Environment,
    version: str,
    signature: str,
    settings: Settings,
    started: Callable[[Kept], None] = lambda command: None,
) -> ScriptRun:
    """Run a script in one release. ``signature`` is a part of the error that a script of a crash ends with. ``started`` as
    in `harness.system.kept.run`.

    A script of a hang is run up to three times, until its ranks hang: whether they do depends on how their messages cross.

    Raises EnvironmentUnavailable, NothingMeasured where the release cannot be installed.
    """
    if environment.failure is not None:
        raise NothingMeasured(outcome_text(environment.failure), where=version)
    runs: list[ScriptRun] = []
    for _ in range(_RUNS_OF_A_HANG if script.is_hang else 1):
        runs.append(_run_once(script, environment, version, signature, settings, started))
        if runs[-1].answer is Verdict.BAD:
            return runs[-1]
    return next((one for one in runs if one.answer is Verdict.UNKNOWN), runs[-1])


def _run_once(
    script: Script,
    environment: Environment,
    version: str,
    signature: str,
    settings: Settings,
    started: Callable[[Kept], None],
) -> ScriptRun:
    runs = Path(settings.environments) / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="script-", dir=runs)
    try:
        done = _run(script, environment, folder, settings, started)
    except OSError as error:
        raise EnvironmentUnavailable(f"does not start: {error.strerror}", where=environment.python) from None
    except subprocess.TimeoutExpired:
        line = f"did not end within {_LIMIT_S:.0f} s"
        return ScriptRun(version=version, answer=Verdict.UNKNOWN, exit_code=None, line=line)
    finally:
        remove_tree(folder)
    return read(script, done, version, signature)


def _run(
    script: Script,
    environment: Environment,
    folder: str,
    settings: Settings,
    started: Callable[[Kept], None],
) -> subprocess.CompletedProcess[bytes]:
    Path(folder, script.file).write_text(script.text, encoding="utf-8")
    own = {
        **{name: value for name, value in ENVIRONMENT.items() if not name.startswith("MASTER_")},  # torchrun chooses
        "HOME": folder,
        "TORCH_EXTENSIONS_DIR": str(caches_of(environment, Path(settings.environments)) / "torch_extensions"),
    }
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(script.ranks), script.file]
    return kept.run(
        [environment.python, *words],
        folder=folder,
        environment=child_environment(own),
        timeout_s=_LIMIT_S,
        started=started,
    )


def read(script: Script, done: subprocess.CompletedProcess[bytes], version: str, signature: str) -> ScriptRun:
    """What a run of a script says."""
    printed = next((line for line in reversed(_lines(done.stdout)) if _is_answer(script, line)), "")
    errors = _lines(done.stderr)
    crashes = [line for line, kind in _exceptions(errors) if signature and signature in stable(line[len(kind) :])]
    if script.is_crash and done.returncode and crashes:
        answer, line = Verdict.BAD, crashes[-1]
    elif printed and done.returncode == 0:
        answer, line = Verdict.GOOD, printed
    elif printed and done.returncode == 1 and _shows(script, printed, done.stderr):
        answer, line = Verdict.BAD, printed
    else:
        answer, line = (
            Verdict.UNKNOWN,
            _error(errors) or _signal(done.stderr) or f"no output, exit code {done.returncode}",
        )
    return ScriptRun(version=version, answer=answer, exit_code=done.returncode, line=shortened(line), printed=printed)


def _shows(script: Script, printed: str, errors: bytes) -> bool:
    """Whether a script that ended with exit code 1 shows the fault. Where ranks hang, the first one ends the others, whose
    exceptions say that it has gone."""
    if script.is_hang:
        return printed.startswith(HANGS)
    return not script.is_crash and not _broke(errors)


def _is_answer(script: Script, line: str) -> bool:
    return script.says in line or (script.is_hang and line.startswith(HANGS))


def figure(script: Script, found: ScriptRun) -> Any:
    """What a script printed that has no figure to compare with yet: a count, or a setting's value. Raises ValueError."""
    if found.answer is not Verdict.GOOD:
        raise ValueError(found.line)
    if script.counts:
        return count(found)
    try:
        return ast.literal_eval(found.printed.partition(" is ")[2])
    except SyntaxError:
        raise ValueError(f"the setting is no literal of Python: {found.line}") from None


def count(found: ScriptRun) -> int:
    """What a script counted: ``941,077 bytes held after backward``."""
    return int(found.printed.split()[0].replace(",", ""))


def _lines(output: bytes) -> list[str]:
    """Without what is put before the lines of a rank, and without colors."""
    text = _STYLE.sub("", output.decode("utf-8", "replace"))
    return [line.partition("]:")[2].removeprefix(" ") if _is_of_rank(line) else line for line in text.splitlines()]


def _is_of_rank(line: str) -> bool:
    return line.startswith("[rank")


def _exceptions(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(the line, the module of the class with its dot) of what may be an exception's own line; frames are indented."""
    for line in lines:
        if found := _EXCEPTION.fullmatch(line.rstrip()):
            module, dot, _ = found["kind"].rpartition(".")
            yield line.rstrip(), module + dot


def _error(lines: Sequence[str]) -> str:
    """The first exception's own line, which torchrun's report follows."""
    for line, _ in _exceptions(lines):
        kind, colon, _ = line.partition(": ")
        if colon and kind.endswith(("Error", "Exception")):
            return line
    return ""


def _signal(errors: bytes) -> str:
    """What ended a rank that torchrun did not end itself; empty where nothing did."""
    found = (
        match["text"]
        for match in _SIGNAL.finditer(errors.decode("utf-8", "replace"))
        if int(match["number"]) != _SIGTERM
    )
    return next(found, "")


def _broke(errors: bytes) -> bool:
    """Whether a rank ended by an exception or a signal, and not by the script's own exit code. Torch puts the rank before
    the traceback of an exception that nothing caught, and not before what only passes by (``Exception ignored in``)."""
    own = [line for line in errors.decode("utf-8", "replace").splitlines() if _is_of_rank(line)]
    return any("Traceback (most recent call last)" in line for line in own) or bool(_signal(errors))
