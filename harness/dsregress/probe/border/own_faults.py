"""Tells failures of the harness's own. They say nothing about a release, and never count as its outcome.

The rule: an error raised because an argument, a name or a target of ours is missing is ours. That is
- a missing stand-in, and a broken part that the probe itself reports (`BrokenPart`);
- a call of ours with arguments that it does not take, and a name that an object of ours does not have: Python raises these
  in the caller's frame, so the message and the call tell whose they are (`dsregress.probe.border.callees`);
- an operation in a frame of ours that went wrong: a key, an attribute, a module that a release no longer has.

Not ours are errors that a frame of ours raises on purpose, about the program or the machine; errors of a call that passes on
the arguments of others (``original(*args, **kwargs)``); and torch's verdict on values (RuntimeError, ValueError).
"""

from __future__ import annotations

import dis
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass

from dsregress.probe.border import callees
from dsregress.probe.border.own_code import is_own_file
from vgpu.fault import BrokenPart
from vgpu.no_stand_in import NoStandInError


@dataclass(frozen=True)
class OwnFault:
    """The error that is the harness's own, and the place: ``dsregress/probe/allocator/reserving.py:117``; empty where the
    error names what is missing."""

    error: BaseException
    place: str = ""


#: Errors of an operation that finds something else than it was written for.
_OF_AN_OPERATION = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, TypeError, ValueError,
)  # fmt: skip
#: Errors of a call in a frame of ours because something is missing, not because of the values passed.
_OF_A_CALL = (AssertionError, AttributeError, ImportError, KeyError, NameError, TypeError, ZeroDivisionError)


def own_fault(error: BaseException) -> OwnFault | None:
    """Return the harness's own error among an error and those that it reports; None without one."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if fault := _of_one(one, is_handled=one is not error and _is_caught_by_us(one)):
            return fault
        one = one.__cause__ or one.__context__
    return None


#: For results stored before these faults counted as ours; `OrderedGloo` is the only class of ours that a release of torch
#: called with an extra argument.
_IN_A_SIGNATURE = re.compile(
    r"^NoStandInError: |^TypeError: OrderedGloo\."
    r"|\((?:dsregress/(?:probe|programs)|vgpu|skeletons|harness/probe)/[^()]+:\d+\)$"
)


def in_signature(signature: str) -> bool:
    """Return True if a stored signature is of a fault of the harness's own."""
    return _IN_A_SIGNATURE.search(signature) is not None


def _of_one(error: BaseException, *, is_handled: bool) -> OwnFault | None:
    if isinstance(error, (BrokenPart, NoStandInError)):
        return OwnFault(error)
    if callees.is_ours(type(error)):  # speaks of the program or of the machine
        return None
    if place := _error_name(error):
        return OwnFault(error, place)
    if not is_handled and (place := _place_of_operation(error)):
        return OwnFault(error, place)
    return None


def _error_name(error: BaseException) -> str:
    try:
        return callees.named_by(error)
    except Exception:  # it calls objects of others, which may raise anything; the error itself must be reported
        return ""


def _is_caught_by_us(error: BaseException) -> bool:
    """Return True if a frame of ours has caught an error, to raise another one in its place, or to try something else."""
    caught = error.__traceback__
    return caught is not None and is_own_file(caught.tb_frame.f_code.co_filename)


def _place_of_operation(error: BaseException) -> str:
    """Return the place where an operation of ours went wrong; empty if none did."""
    if not isinstance(error, (*_OF_AN_OPERATION, RuntimeError)):
        return ""
    frames = list(_traceback(error))
    if isinstance(error, (AttributeError, ImportError)):
        frames = [frame for frame in frames if not _looks_up(frame)]
    if not frames or not is_own_file(frames[-1].tb_frame.f_code.co_filename):
        return ""
    if isinstance(error, ModuleNotFoundError) and "." not in (error.name or ""):
        return ""  # a package that is not installed
    operation = _operation(frames[-1])
    if isinstance(error, RuntimeError) and operation != "FOR_ITER":  # of what changes while it is iterated over
        return ""
    is_deliberate = operation == "RAISE_VARARGS" and not isinstance(error, AssertionError)
    is_handed_on = operation == "CALL_FUNCTION_EX"
    is_a_verdict = operation.startswith(("CALL", "PRECALL")) and not isinstance(error, _OF_A_CALL)
    if is_deliberate or is_handed_on or is_a_verdict:
        return ""
    return callees.place_of(frames[-1].tb_frame.f_code.co_filename, frames[-1].tb_lineno)


def _traceback(error: BaseException) -> Iterator[types.TracebackType]:
    frame = error.__traceback__
    while frame is not None:
        yield frame
        frame = frame.tb_next


def _looks_up(frame: types.TracebackType) -> bool:
    """Return True if a frame only looks up a name: Python's own import, and a module's ``__getattr__``."""
    code = frame.tb_frame.f_code
    return "importlib" in code.co_filename or (code.co_name == "__getattr__" and "self" not in code.co_varnames[:1])


def _operation(frame: types.TracebackType) -> str:
    """Return the name of the instruction that raised."""
    before = [one for one in dis.get_instructions(frame.tb_frame.f_code) if one.offset <= frame.tb_lasti]
    return before[-1].opname if before else ""
