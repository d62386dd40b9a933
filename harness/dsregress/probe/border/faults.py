"""Turns an exception, a signal or a log into a signature that is the same for the same fault."""

from __future__ import annotations

import itertools
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence

from dsregress.probe.border import encoding, machine
from dsregress.probe.border.callees import package_called
from dsregress.probe.border.detail_lines import gathered_at, refused_by
from dsregress.probe.border.masking import without_secrets
from dsregress.probe.border.own_code import PACKAGE_FOLDERS, is_own_file
from dsregress.probe.border.own_faults import own_fault
from dsregress.probe.border.processor_faults import OF_PROCESSORS, is_of_processors
from dsregress.probe.border.untrusted import read_tail
from vgpu.error_chain import behind_one_another
from vgpu.own_copies import place_of_copies

#: Longest stage, signature, detail, and line of a rank's place that are kept.
STAGE_LENGTH = 40
SIGNATURE_LENGTH = 160

#: The same for an error that says what to do, which a reader is to type: no command is cut.
INSTRUCTION_LENGTH = 320
DETAIL_LENGTH = 1500
WHEREABOUTS_LENGTH = 300
#: Most lines on where the ranks are.
MOST_WHEREABOUTS = 8

#: Characters read of one line, of an error's message, and of a text: much more than are kept, and quickly read.
_LINE_READ = 8_000
_MOST_MESSAGE = 1 << 20
_TEXT_READ = 32_000
_STACKS_READ = 1 << 18

# Messages are written by others, and can be long: no pattern here looks at a character more than a few times.

#: A word that may be a path. Its part from ``/`` to the last of these folders is dropped.
_WORD = re.compile(r"[^\s:'\",()]+")
_FOLDER = re.compile(r"(?<![\w.:/])/(?:[^/\s:'\",()]+/)+")


def _below_packages(word: re.Match[str]) -> str:
    """Return ``torch/x.py`` for ``/home/me/v/lib/site-packages/torch/x.py``."""
    text = word[0]
    first = text.find("/")
    end = max((at + len(name) for name in PACKAGE_FOLDERS if (at := text.rfind(name)) > first >= 0), default=first)
    return text[:first] + text[end:] if end > first >= 0 else text


_VOLATILE: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"0x[0-9a-fA-F]+"), "0x..."),
    (_WORD, _below_packages),
    (_FOLDER, ".../"),
    (re.compile(r"\bport \d+|(?<!waits for localhost):\d{4,5}\b"), ":PORT"),  # but one that the program itself names
    (re.compile(r"\b(pid|process|thread)[ =]\d+", re.I), r"\1 N"),
    (re.compile(r"\s+"), " "),
)

#: How pydantic begins: its next two lines name the setting, and what is wrong with it before its own ``[type=...``.
_ANNOUNCED = re.compile(r"\d+ validation errors? for ")

#: How torch raises the error of a loader's worker or of another rank: "Caught KeyError in DataLoader worker process 0.", and
#: then its traceback.
_OF_A_WORKER = re.compile(r"Caught \w+ in [^\n]*\nOriginal Traceback")

#: How transformers announces an error that it reports: "Failed to import transformers.trainer because of the following error
#: (look up to see its traceback):", and the error's own message on the next line.
_FOLLOWS = "following error"

#: Of packages, what is in the way between a framework's call and the error: torch, and how it marks its old functions.
_BENEATH = ("torch/", "typing_extensions.py")

#: The stage of the harness's own faults, whichever stage ran.
HARNESS = "harness"

#: Words of errors that a rank, or the machine it runs on, gets because another rank died, stopped or never came.
_OF_ANOTHER_RANK = re.compile(
    r"connection|\bpeer|gloo|nccl|timed out|killed by the harness|did not stop",  # "peer" is in every TypeError
    re.IGNORECASE,
)


def signature_of(error: BaseException) -> str:
    """Return the signature of an error, ``RuntimeError: ... (deepspeed/runtime/zero/stage3.py:step)``: the message without
    what changes from run to run, and, unless the message itself names the place, the innermost frame outside of torch and
    the standard library.

    If an import failed because another one did, it is that of the other: transformers says "Could not import module
    'GenerationMixin'" if a package is missing. If the error only announces another, it is that of the other; if it reports a
    fault of the harness's own, it is that fault's.
    """
    own = own_fault(error)
    error = own.error if own is not None else _first_import_error(announced(error))
    text = f"{type(error).__name__}: {_first_line(encoding.bounded_text(error))}".rstrip(": ")
    place = own.place if own is not None else ""
    place = place or ("" if getattr(error, "says_where", False) else _innermost_frame(error))
    place = place[-(SIGNATURE_LENGTH // 2) :]
    length = INSTRUCTION_LENGTH if getattr(error, "says_what_to_do", False) else SIGNATURE_LENGTH
    text = stable(text, length)
    if length == INSTRUCTION_LENGTH and len(text) > SIGNATURE_LENGTH - len(place) - 3:  # what to do is at its end
        place = place.rpartition("/")[2]
    return f"{text[: length - len(place) - 3]} ({place})" if place else text


def announced(error: BaseException) -> BaseException:
    """Return the error behind those that only announce it: a line of introduction, and then its own message, which a reader
    of one line would not see."""
    chain = list(behind_one_another(error))
    for one, cause in itertools.pairwise(chain):
        if one.__cause__ is not cause or not _announces(
            encoding.bounded_text(one), encoding.bounded_text(cause).strip()
        ):
            return one
    return chain[-1]


def _announces(text: str, cause: str) -> bool:
    return _FOLLOWS in text or (bool(cause) and f":\n{cause}" in text)


def _first_line(message: str) -> str:
    """Return the first line of a message, with the next two if it only announces them, and the next one if it ends in a
    colon; of an error of another process the last one, which has its reason."""
    lines = message.strip().splitlines() or [""]
    if _OF_A_WORKER.match(message):
        return lines[-1][:_LINE_READ].partition(": ")[2] or lines[0]
    if _ANNOUNCED.match(lines[0]):
        return ": ".join(line[:_LINE_READ].strip().partition(" [type=")[0] for line in lines[:3])
    if lines[0].rstrip().endswith(":") and len(lines) > 1:  # as torch's load_state_dict before the missing keys
        return f"{lines[0].rstrip()} {lines[1][:_LINE_READ].strip()}"
    return lines[0]


def stable(text: str, length: int = SIGNATURE_LENGTH) -> str:
    """Return so much of the line, without secrets, addresses, folders, ports and process ids."""
    text = without_secrets(text[:_LINE_READ])
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text.strip()[:length]


def detail_of(error: BaseException) -> str:
    """Return the end of the traceback, for the reader of a report."""
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:  # it prints the error and its causes, which are a framework's own objects
        text = f"{type(error).__name__}: {encoding.bounded_text(error)}"
    if package := _package_called(error):
        text = f"{text.rstrip()}\n{refused_by(package)}"
    if place := place_of_copies():
        text = f"{text.rstrip()}\n{gathered_at(place)}"
    if is_of_processors(error):
        text = f"{text.rstrip()}\n{OF_PROCESSORS}"
    return _last_lines(encoding.bounded_text(text[-_TEXT_READ - 1 :], _TEXT_READ + 1))


def _package_called(error: BaseException) -> str:
    try:
        return package_called(error)
    except (AttributeError, TypeError, ValueError, KeyError):  # of objects that answer for others
        return ""


def without_folders(text: str) -> str:
    """Return the text with paths below site-packages kept, and only the last part of others: results are published, and
    folders of a user are private, as are secrets."""
    return _FOLDER.sub(".../", _WORD.sub(_below_packages, without_secrets(text)))


def signal_signature(number: int, log: str = "") -> str:
    """Return the signature of a death by signal, ``killed by SIGABRT: [enforce fail at .../pair.cc:456] ...
    (torch/autograd/graph.py:backward)``: with what the process's ``log`` says of it, and the place in Python at that
    time."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    said, at = _WHAT.findall(log), _DIED_AT.findall(log)
    words = f"killed by {name}: {said[-1]}" if said else f"killed by {name}"
    place = f" ({without_folders(at[-1][0])}:{at[-1][1]})"[-(SIGNATURE_LENGTH // 2) :] if at else ""
    return f"{stable(words)[: SIGNATURE_LENGTH - len(place)]}{place}"


#: How C++ says which exception nothing caught, and how Python says where the thread was that a signal ended.
_WHAT = re.compile(r"^\s*what\(\):\s*(.{1,8000})", re.MULTILINE)
_DIED_AT = re.compile(
    r'^Current thread \S+ \(most recent call first\):\n\s*File "([^"\n]+)", line \d+ in (\S+)', re.MULTILINE
)


def last_words(path: str) -> str:
    """Return the end of a log, long enough for the stack of each thread, which Python writes after the cause of death; empty
    if the log cannot be read."""
    try:
        return read_tail(path, _STACKS_READ).decode("utf-8", "replace")
    except OSError:
        return ""


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory ran out: by torch's class, by the message of the host's allocator, or by Python's class."""
    if type(error).__name__ == "OutOfMemoryError":
        return True
    text = encoding.bounded_text(error, _MOST_MESSAGE)
    return "out of memory" in text.lower() or machine.host_refuses_memory(error, text)


def stage_of(error: BaseException) -> str | None:
    """Return the stage that an error counts in, if not the one that runs: a fault of the harness's own says nothing about
    what it measures. None for any other error."""
    return HARNESS if own_fault(error) is not None else None


def blames_another_rank(signature: str) -> bool:
    """Return True if an error only reports that another rank is gone, not what went wrong here."""
    return _OF_ANOTHER_RANK.search(signature) is not None


def _last_lines(text: str) -> str:
    """Return the last lines of a text, without folders. It is cut between words, as half a path is no longer recognized as
    one."""
    if len(text) > _TEXT_READ:
        text = "".join(re.split(r"(\s)", text[-_TEXT_READ:], maxsplit=1)[2:])
    return without_folders(text)[-DETAIL_LENGTH:]


def _first_import_error(error: BaseException) -> BaseException:
    seen = [error]
    while (
        isinstance(seen[-1], ImportError) and isinstance(cause := seen[-1].__cause__, ImportError) and cause not in seen
    ):
        seen.append(cause)
    return seen[-1]


def stack_places(frames: Sequence[traceback.FrameSummary]) -> Iterator[str]:
    """Yield the places of a stack outside of torch, the standard library and the probe, the innermost first:
    ``deepspeed/runtime/engine.py:step``, or ``train.py:12`` of a program that was run (`runpy`). ``frames`` are from the
    outermost to the innermost."""
    begins = max((index for index, frame in enumerate(frames) if "runpy" in frame.filename), default=len(frames))
    for index, frame in reversed([*enumerate(frames)]):
        path = frame.filename.replace("\\", "/")
        if "/site-packages/" in path:
            path = path.rsplit("/site-packages/", 1)[1]
            if not path.startswith(_BENEATH):
                yield f"{path}:{frame.name}"
        elif index > begins and "/lib/python" not in path and not is_own_file(frame.filename):
            yield f"{path.rpartition('/')[2]}:{frame.lineno}"


def _innermost_frame(error: BaseException) -> str:
    return next(stack_places(traceback.extract_tb(error.__traceback__)), "")


def tail(path: str) -> str | None:
    """Return the end of a log; None if it cannot be read."""
    try:
        return _last_lines(read_tail(path, _TEXT_READ + 1).decode("utf-8", "replace"))
    except OSError:
        return None
