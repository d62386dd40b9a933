"""The end of a process that reports no Python error: by a signal, or by a watchdog whose collective did not return. Pure.

Sources: faulthandler, torch's elastic launcher and ProcessGroupNCCL.cpp, DeepSpeed's launcher, shells, Slurm and containers.
"""

from __future__ import annotations

import re
import signal
from enum import Enum

import msgspec

# The text is untrusted: no pattern here looks at a character more than a few times.

#: A collective that a watchdog waited for. NCCL's and other libraries' process groups write the same.
_WAITED = re.compile(r"collective operation timeout: Work\w+\((?P<fields>[^\n]{0,400})")
_FIELD = re.compile(r"(\w{1,40})(?:\(\w{1,8}\))?=(\w{1,40})")
#: What Gloo says of its operations between two processes.
_WAITED_FOR_PEER = re.compile(r"Timed out waiting (?P<milliseconds>\d{1,12})ms for (?P<operation>\w{1,20}) operation")
_HEARTBEAT = re.compile(r"heartbeat monitor timed out", re.IGNORECASE)

#: Words of faulthandler and of Linux's shells -> the signal. A machine that only reads the log may have other words.
_OF_ACCESS = {"segmentation fault": signal.SIGSEGV, "bus error": signal.SIGBUS}
_OF_COMPUTATION = {"floating point exception": signal.SIGFPE, "illegal instruction": signal.SIGILL}
_OF_FAULTS = {**_OF_ACCESS, **_OF_COMPUTATION, "aborted": signal.SIGABRT}
_WORDS = {**_OF_FAULTS, "killed": signal.SIGKILL}
_FATAL = "|".join(words.capitalize().replace(" ", "[ -]") for words in _OF_FAULTS)
_FATAL_ERROR = re.compile(rf"Fatal Python error: (?P<what>{_FATAL})")
_ENDED = r"(?:\s+\(core dumped\)|\s+\S*python\S*\s|\s*$)"
_OF_SHELL = re.compile(rf"(?:^|[\s:])(?P<what>{_FATAL}|Killed){_ENDED}", re.MULTILINE)
_NAMED = re.compile(r"(?:\bSignals\.|\bsignal:? )(?P<name>SIG[A-Z]{1,6})\b", re.IGNORECASE)
_RECEIVED = re.compile(r"\b(?P<name>SIG[A-Z]{1,6})\)? received\b")
_NUMBERED = re.compile(r"\bsignal:? (?P<number>\d{1,2})\b", re.IGNORECASE)
_SPELLED = re.compile(rf"\bsignal:? (?P<what>{_FATAL}|Killed)\b", re.IGNORECASE)
#: Codes of a parent's report: a child's is negative, a shell's and a container's 128 more.
_REPORTED = r"\b(?:exit ?code|return code|exit status|exited with code)\s{0,4}[:=]?\s{0,4}"
_CODE = re.compile(rf"{_REPORTED}(?P<code>-\d{{1,2}}|1[2-5]\d)\b", re.IGNORECASE)

#: How C++ says that nothing caught an exception, after which it aborts.
_TERMINATED = re.compile(r"^.{0,200}\bterminate called\b", re.MULTILINE)
_SAID = re.compile(r"what\(\):\s*([^\n]{1,2000})")

#: Signals by which a parent or a scheduler stops the others once one has ended.
_OF_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndKind(Enum):
    """The kind of an end without a Python error."""

    KILLED = "killed"  #: by a signal that no process can answer
    SIGNAL = "signal"  #: of a fault in compiled code
    TIMEOUT = "timeout"  #: of a collective


class ProcessEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a process, as its log or its launcher tells it."""

    kind: EndKind
    signal: str = ""  #: SIGSEGV; empty for a timeout
    collective: str = ""  #: ALLREDUCE; empty unless a watchdog names it
    waited_s: float | None = None
    said: str = ""  #: the message of an exception of C++


def read_process_end(text: str) -> ProcessEnd | None:
    """Return the end that a text tells of; None if it tells of none. A timeout comes first: the watchdog then aborts the
    process."""
    if (waited := _WAITED.search(text)) is not None:
        fields = dict(_FIELD.findall(waited["fields"]))
        milliseconds = fields.get("Timeout", "")
        return ProcessEnd(
            kind=EndKind.TIMEOUT,
            collective=fields.get("OpType", ""),
            waited_s=int(milliseconds) / 1000 if milliseconds.isdigit() else None,
        )
    if (waited := _WAITED_FOR_PEER.search(text)) is not None:
        seconds = int(waited["milliseconds"]) / 1000
        return ProcessEnd(kind=EndKind.TIMEOUT, collective=waited["operation"], waited_s=seconds)
    if _HEARTBEAT.search(text):
        return ProcessEnd(kind=EndKind.TIMEOUT)
    found = [one for one in _signals(text) if one not in _OF_STOPPING]
    if not found:
        return None
    # a rank that a fault ended comes before those that the launcher killed for it
    chosen = next((one for one in found if one is not signal.SIGKILL), found[0])
    kind = EndKind.KILLED if chosen is signal.SIGKILL else EndKind.SIGNAL
    said = _SAID.search(text) if chosen is signal.SIGABRT else None
    return ProcessEnd(kind=kind, signal=chosen.name, said=said[1].strip() if said else "")


def _signals(text: str) -> list[signal.Signals]:
    """Return the signals that a text names, the surest report first."""
    fatal = [_by_words(match["what"]) for match in _FATAL_ERROR.finditer(text)]
    aborted = [signal.SIGABRT for _ in _TERMINATED.finditer(text)]
    named = [_by_name(match["name"]) for pattern in (_RECEIVED, _NAMED) for match in pattern.finditer(text)]
    spelled = [_by_words(match["what"]) for pattern in (_SPELLED, _OF_SHELL) for match in pattern.finditer(text)]
    numbers = [_by_number(int(match["number"])) for match in _NUMBERED.finditer(text)]
    codes = [_by_number(abs(int(match["code"])) % 128) for match in _CODE.finditer(text)]
    return [one for one in (*fatal, *aborted, *named, *spelled, *numbers, *codes) if one is not None]


def _by_name(name: str) -> signal.Signals | None:
    return signal.Signals.__members__.get(name.upper())


def _by_words(words: str) -> signal.Signals | None:
    return _WORDS.get(words.replace("-", " ").lower())


def _by_number(number: int) -> signal.Signals | None:
    return next((one for one in signal.Signals if one == number), None)
