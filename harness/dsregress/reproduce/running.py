"""Runs scripts in the environment of a release, and reads what they show."""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from dsregress.config.settings import Settings
from dsregress.config.variables import child_environment
from dsregress.errors import EnvironmentUnavailable, NothingMeasured
from dsregress.launch.local import caches_of
from dsregress.model import Environment, Verdict
from dsregress.probe.border.faults import stable
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.reproduce.script import HANGS, Script
from dsregress.system import kept
from dsregress.system.kept import Kept
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import shortened
from vgpu.trees import remove_tree

#: A script takes seconds once the framework is imported, which takes a minute if other work keeps the machine busy.
_LIMIT_S = 600.0

#: Runs of a script of a hang: ranks whose collectives do not match hang in most runs, not in all.
_RUNS_OF_A_HANG = 3

#: An exception's own line in a traceback: its class, with its module but for Python's own, and the message.
_EXCEPTION = re.compile(r"(?P<kind>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:: .*)?")

#: A terminal's colors and styles, which torch puts into some messages even outside a terminal.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")

#: The line of torchrun's report on a rank that a signal ended.
_SIGNAL = re.compile(r"(?P<text>Signal (?P<number>\d+) \(SIG\w+\)) received by PID")

#: The signal with which torchrun ends the other ranks once one has failed.
_SIGTERM = 15


class ScriptRun(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a script in one release."""

    version: str  #: of the package that the releases differ in
    answer: Verdict  #: Bad where it shows the fault
    exit_code: int | None  #: None: it did not end, or did not run
    line: str  #: its line of output; what ended it, where it has none; a short form of either
    printed: str = ""  #: its line of output as it is


def run_script(
    script: Script,
    environment: Environment,
    version: str,
    signature: str,
    settings: Settings,
    started: Callable[[Kept], None] = lambda command: None,
) -> ScriptRun:
    """Run a script in one release. ``signature`` is a part of the error that a script of a crash ends with; ``started`` is
    that of `dsregress.system.kept.run_kept`.

    A script of a hang is run up to three times, until its ranks hang: that depends on the order in which their messages
    cross.

    Raise NothingMeasured if the release cannot be installed, EnvironmentUnavailable if its Python does not start.
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
        done = _finished_script(script, environment, folder, settings, started)
    except OSError as error:
        raise EnvironmentUnavailable(f"does not start: {error.strerror}", where=environment.python) from None
    except subprocess.TimeoutExpired:
        line = f"did not end within {_LIMIT_S:.0f} s"
        return ScriptRun(version=version, answer=Verdict.UNKNOWN, exit_code=None, line=line)
    finally:
        remove_tree(folder)
    return read_verdict(script, done, version, signature)


def _finished_script(
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
    return kept.run_kept(
        [environment.python, *words],
        folder=folder,
        environment=child_environment(own),
        timeout_s=_LIMIT_S,
        started=started,
    )


def read_verdict(script: Script, done: subprocess.CompletedProcess[bytes], version: str, signature: str) -> ScriptRun:
    """Read the verdict of a script from its output and exit code."""
    printed = next((line for line in reversed(_lines(done.stdout)) if _is_answer(script, line)), "")
    errors = _lines(done.stderr)
    crashes = [line for line, kind in _exceptions(errors) if signature and signature in stable(line[len(kind) :])]
    if script.is_crash and done.returncode and crashes:
        answer, line = Verdict.BAD, crashes[-1]
    elif printed and done.returncode == 0:
        answer, line = Verdict.GOOD, printed
    elif printed and done.returncode == 1 and _shows_fault(script, printed, done.stderr):
        answer, line = Verdict.BAD, printed
    else:
        answer, line = (
            Verdict.UNKNOWN,
            _error(errors) or _signal(done.stderr) or f"no output, exit code {done.returncode}",
        )
    return ScriptRun(version=version, answer=answer, exit_code=done.returncode, line=shortened(line), printed=printed)


def _shows_fault(script: Script, printed: str, errors: bytes) -> bool:
    """Return True if a script that ended with exit code 1 shows the fault. If ranks hang, the first one to give up ends the
    others, whose exceptions report that it has gone."""
    if script.is_hang:
        return printed.startswith(HANGS)
    return not script.is_crash and not _broke(errors)


def _is_answer(script: Script, line: str) -> bool:
    return script.says in line or (script.is_hang and line.startswith(HANGS))


def figure(script: Script, found: ScriptRun) -> object:
    """Return the figure, a count or a setting's value, that a script without a figure to compare with printed. Raise
    ValueError if it printed none."""
    if found.answer is not Verdict.GOOD:
        raise ValueError(found.line)
    if script.counts:
        return count(found)
    try:
        return ast.literal_eval(found.printed.partition(" is ")[2])
    except SyntaxError:
        raise ValueError(f"the setting is no literal of Python: {found.line}") from None


def count(found: ScriptRun) -> int:
    """Return the number that a script counted: ``941,077 bytes held after backward``."""
    return int(found.printed.split()[0].replace(",", ""))


def _lines(output: bytes) -> list[str]:
    """Return the lines of output, without the prefix of a rank and without colors."""
    text = _STYLE.sub("", output.decode("utf-8", "replace"))
    return [line.partition("]:")[2].removeprefix(" ") if _is_of_rank(line) else line for line in text.splitlines()]


def _is_of_rank(line: str) -> bool:
    return line.startswith("[rank")


def _exceptions(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each line that may be an exception's own, with the module of its class and a dot; frames are indented."""
    for line in lines:
        if found := _EXCEPTION.fullmatch(line.rstrip()):
            module, dot, _ = found["kind"].rpartition(".")
            yield line.rstrip(), module + dot


def _error(lines: Sequence[str]) -> str:
    """Return the first exception's own line, which torchrun's report follows."""
    for line, _ in _exceptions(lines):
        kind, colon, _ = line.partition(": ")
        if colon and kind.endswith(("Error", "Exception")):
            return line
    return ""


def _signal(errors: bytes) -> str:
    """Return the signal that ended a rank, unless torchrun sent it; empty if there was none."""
    found = (
        match["text"]
        for match in _SIGNAL.finditer(errors.decode("utf-8", "replace"))
        if int(match["number"]) != _SIGTERM
    )
    return next(found, "")


def _broke(errors: bytes) -> bool:
    """Return True if a rank ended by an exception or a signal, and not by the script's own exit code. Torch prefixes the
    rank to the traceback of an uncaught exception, and not to tracebacks that are only printed (``Exception ignored
    in``)."""
    own = [line for line in errors.decode("utf-8", "replace").splitlines() if _is_of_rank(line)]
    return any("Traceback (most recent call last)" in line for line in own) or bool(_signal(errors))
