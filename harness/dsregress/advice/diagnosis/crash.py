"""From a pasted log to one crash: its error, its frames, their phase, and the versions it mentions. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from dsregress.advice.diagnosis import out_of_memory
from dsregress.advice.diagnosis.log_lines import TRACEBACK, lines_of_processes, without_colours
from dsregress.advice.diagnosis.out_of_memory import MemoryMessage
from dsregress.advice.diagnosis.process_ends import ProcessEnd, read_process_end
from dsregress.model import AXES
from dsregress.probe.border import faults
from dsregress.probe.border.own_code import PACKAGE_FOLDERS

# The text is untrusted: no pattern here looks at a character more than a few times.

_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]{1,400})", line (?P<line>\d+), in (?P<function>\S{1,200})')
_ERROR = re.compile(
    r"(?<![\w.])(?P<module>(?:[A-Za-z_]\w*\.)*)(?P<kind>Exception|[A-Z]\w*(?:Error|Exception|Warning))(?::\s+|:?$)"
)
#: argparse's last line, after the usage; the program ends with exit code 2 and no traceback.
_REFUSED = re.compile(r"^\S{1,200}: error: (?P<message>(?:argument|unrecognized arguments|the following arguments) .*)")
_OF_RAY = re.compile(r"RayTaskError\((?P<kind>\w+)\)")

#: Errors of a launcher, a worker or a rank that only report what another process got.
_REPORTS_ANOTHER = ("ChildFailedError", "CalledProcessError", "RayTaskError", "RayActorError", "ActorDiedError")

#: How a loader reports what ended its worker.
_OF_A_WORKER = re.compile(r"DataLoader worker .{0,80}(?:killed by signal|exited unexpectedly)")

#: How Python reports an error that it goes on after: of a destructor, a callback, a thread, or what runs at exit.
_IGNORED = re.compile(r"\bException ignored (?:in|on|while)\b|\bException in thread \S|\bError in atexit\b")

#: In a line that belongs to no message before it.
_BEGINS_ANOTHER = re.compile(rf"{re.escape(TRACEBACK)}|{_IGNORED.pattern}|{_FRAME.pattern}")

#: How faulthandler begins the stack of the thread that a signal ended, innermost first, and writes its frames.
_CURRENT_THREAD = re.compile(r"^\s*(?:Current thread|Thread) \S{1,40}.{0,80}\(most recent call first\):")
_STACK_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]{1,400})", line (?P<line>\d+) in (?P<function>\S{1,200})')

_STANDARD = re.compile(r"/lib/python3(?:\.\d+)?/(?!site-packages|dist-packages)|^<|/runpy\.py$")

#: Names of packages as they are installed and as reports write them -> the axis.
_NAMES = {"pytorch": "torch", **{name: name for name in (*AXES, "trl")}}
#: Packages that a next command can name; what is beside them only passes an error on.
_AT_FAULT = frozenset((*AXES, "trl", "datasets"))
#: Not where a message tells what a release changed: "In PyTorch 2.6, we changed the default".
_MENTIONED = re.compile(
    r"(?<![\w.-])(?<!\bIn )(deepspeed|pytorch|torch|transformers|accelerate|peft|trl)`?(?: version)?"
    r"\s{0,40}(?:==|[:=@]|\s|-(?=\d))\s{0,8}v?`?"
    r"(\d{1,4}(?:\.\d{1,4}){1,3}(?:\.(?:dev|post|rc)\d+|rc\d+)?)(?![\w]|\.\d)",
    re.IGNORECASE,
)


class _Marks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``crash.toml``."""

    functions: dict[str, frozenset[str]]  #: phase -> functions that indicate it
    zero_stages: dict[str, tuple[int, ...]]  #: DeepSpeed's files -> the stages of ZeRO that run them


_MARKS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Marks)

#: Lines that a message wrapped by hand may have.
_JOINED_LINES = 6


class TraceFrame(msgspec.Struct, frozen=True):
    """A line of a traceback."""

    file: str  #: relative to site-packages if it is installed; otherwise the last two parts of the path
    line: int
    function: str
    is_installed: bool

    @property
    def text(self) -> str:
        """Return the frame as ``FILE:LINE in FUNCTION``."""
        return f"{self.file}:{self.line} in {self.function}"

    @property
    def package(self) -> str:
        """Return the installed package's folder; empty for the user's code."""
        return self.file.partition("/")[0] if self.is_installed else ""


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """One error of a log."""

    error: str  #: its class, without its module; empty if the log has only a message of the allocator, or an `end`
    message: str  #: the text after the class, without what changes from run to run
    memory: MemoryMessage | None
    frames: tuple[TraceFrame, ...]  #: outermost first, without the standard library's
    versions: dict[str, str]  #: package -> version, as far as the text mentions them
    end: ProcessEnd | None = None  #: of a process that reports no error of its own
    is_ignored: bool = False  #: Python went on after it

    @property
    def phase(self) -> str:
        """Return ``load``, ``generate``, ``backward``, ``step`` or ``forward``, by the frames; empty if they show none."""
        names = [frame.function for frame in self.frames]
        marks = _MARKS.functions
        if marks["generate"].intersection(names):
            return "generate"
        if marks["backward"].intersection(names):  # a checkpoint's forward runs again inside it
            return "backward"
        for name in reversed(names):
            if name in marks["step"]:
                return "step"
            if name == "forward":
                return "forward"
        return "load" if any(name in marks["load"] or name == "__init__" for name in names) else ""

    @property
    def zero_stages(self) -> tuple[int, ...]:
        """Return the stages of ZeRO whose code the traceback goes through; empty if it goes through none."""
        files = [frame.file for frame in self.frames]
        known = _MARKS.zero_stages.items()
        return next((stages for name, stages in known if any(file.endswith(name) for file in files)), ())

    @property
    def package(self) -> str:
        """Return the package in whose code the traceback ends, after the user's last frame: torch only if no other of the
        packages that a stack has is there, since most errors end in a function of torch. Empty if none is."""
        last = self.last_of_user
        behind = self.frames[self.frames.index(last) + 1 :] if last is not None else self.frames
        ours = [frame.package for frame in behind if frame.package in _AT_FAULT]
        return next((one for one in reversed(ours) if one != "torch"), ours[-1] if ours else "")

    @property
    def last_of_user(self) -> TraceFrame | None:
        """Return the innermost frame of the user's code; None if all frames are of installed packages."""
        return next((frame for frame in reversed(self.frames) if not frame.is_installed), None)

    @property
    def first_of_framework(self) -> TraceFrame | None:
        """Return the first installed frame after the user's last one, or the first of all if the user's code has no frame;
        None without any."""
        last = self.last_of_user
        behind = self.frames[self.frames.index(last) + 1 :] if last is not None else self.frames
        return next((frame for frame in behind if frame.is_installed), None)


def read_crash(text: str) -> Crash | None:
    """Return the crash that a log reports; None if it has none. If several ranks report an error, choose one that does not
    merely echo another process's, and that Python did not ignore; without any, the way in which a process ended."""
    text = without_colours(text)
    versions = versions_in(text)
    processes = lines_of_processes(text)
    found = [one for lines in processes for one in _errors(lines)]
    found = [one for one in found if one.message or one.frames] or found  # pytest ends with the class alone
    memory = out_of_memory.read_memory_message(text)
    if memory is not None:
        exhausted = [
            one
            for one in found
            if "OutOfMemory" in one.error or out_of_memory.read_memory_message(one.message) is not None
        ]
        chosen = max(exhausted, key=lambda one: len(one.frames), default=None)
        if chosen is None:  # a message without an error's class, in some log
            return Crash(error="", message="", memory=memory, frames=(), versions=versions)
        return msgspec.structs.replace(chosen, memory=memory, versions=versions)
    own = [one for one in found if not _is_echo(one)]
    own = [one for one in own if not one.is_ignored] or own
    end = read_process_end(text) if all(one.is_ignored for one in own) else None
    if end is not None:
        frames = tuple(frame for lines in processes for frame in _stack(lines))
        return Crash(error="", message="", memory=None, frames=frames, versions=versions, end=end)
    return msgspec.structs.replace((own or found)[-1], versions=versions) if found else None


def _is_echo(one: Crash) -> bool:
    text = f"{one.error}: {one.message}"
    return (
        one.error in _REPORTS_ANOTHER
        or faults.blames_another_rank(text)
        or _OF_A_WORKER.search(one.message) is not None
    )


def _stack(lines: Sequence[str]) -> list[TraceFrame]:
    """Return the frames of the first stack of a thread that a signal ended, outermost first: the current thread's if one is
    named so."""
    starts = [at for at, line in enumerate(lines) if _CURRENT_THREAD.match(line)]
    begin = next((at for at in starts if lines[at].lstrip().startswith("Current")), starts[0] if starts else len(lines))
    found = itertools.takewhile(lambda one: one is not None, map(_STACK_FRAME.match, lines[begin + 1 :]))
    return [_frame(match) for match in found if match is not None and not _STANDARD.search(match["file"])][::-1]


def versions_in(text: str) -> dict[str, str]:
    """Return the version of each package that the text mentions first."""
    found: dict[str, str] = {}
    for name, version in _MENTIONED.findall(text):
        found.setdefault(_NAMES[name.lower()], version)
    return found


def _errors(lines: Sequence[str]) -> Iterable[Crash]:
    """Yield every error, with the frames of its traceback."""
    frames: list[TraceFrame] = []
    is_ignored = False
    for at, line in enumerate(lines):
        if _IGNORED.search(line[:2000]):
            is_ignored = True
        elif TRACEBACK in line:
            frames = []
        elif match := _FRAME.match(line):
            if not _STANDARD.search(match["file"]):
                frames.append(_frame(match))
        elif match := _REFUSED.match(line[:2000]):
            message = _unwrapped_message([match["message"]])
            yield Crash(error="ArgumentError", message=message, memory=None, frames=(), versions={})
        elif (match := _ERROR.search(line[:2000])) and not _is_code(line, match):
            if match["kind"].endswith("Warning") and not frames:  # printed, and not raised
                continue
            kind = ray["kind"] if (ray := _OF_RAY.search(line[:2000])) else match["kind"]
            following = [line[match.end() :], *lines[at + 1 : at + _JOINED_LINES]]
            yield Crash(
                error=kind,
                message=_unwrapped_message(following),
                memory=None,
                frames=tuple(frames),
                versions={},
                is_ignored=is_ignored,
            )
            frames, is_ignored = [], False


def _is_code(line: str, match: re.Match[str]) -> bool:
    """Return True for a traceback's line of code, such as ``except ValueError:`` or ``raise ValueError(...)``."""
    before = line[: match.start()].strip()
    return before.startswith(("except", "raise", "#")) or (line.startswith("    ") and match.end() == len(line))


def _unwrapped_message(lines: Sequence[str]) -> str:
    """Return the first line, with the following ones if it was wrapped by hand: up to an empty line, an error or another
    traceback."""
    kept: list[str] = []
    for line in lines:
        if kept and (not line.strip() or _BEGINS_ANOTHER.search(line[:2000]) or _ERROR.match(line.strip())):
            break
        kept.append(line.strip())
    return " ".join(faults.stable(line) for line in kept if line)


def _frame(match: re.Match[str]) -> TraceFrame:
    file = match["file"].replace("\\", "/")
    at = max((file.rfind(name) + len(name) for name in PACKAGE_FOLDERS if name in file), default=0)
    return TraceFrame(file[at:] if at else _last_folders(file), int(match["line"]), match["function"], at > 0)


def _last_folders(file: str) -> str:
    """Return the last two parts of a path: a user's folders are private, and long."""
    return "/".join(file.split("/")[-2:])
