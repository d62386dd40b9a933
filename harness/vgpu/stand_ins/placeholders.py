"""Placeholders for names that a stand-in lacks. One can be imported, named, subclassed, and be an annotation or an argument
of ``isinstance``; calling it, or instantiating a subclass, is refused in one line."""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

from vgpu.no_stand_in import NoStandInError
from vgpu.stand_ins import asking


class Placeholder(abc.ABCMeta):
    """A class that stands for a name which has no stand-in."""

    #: The full name, which subclasses inherit, and what else the refusal of a call says.
    stands_for: str
    reason = ""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.answer_call(sys._getframe(1), *args, **kwargs)

    def answer_call(cls, frame: FrameType, *args: Any, **kwargs: Any) -> Any:
        """Return what a call by ``frame`` returns. Raise NoStandInError unless it decorates a function."""
        if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType) and asking.in_a_body(frame):
            return placeholder(f"{cls.stands_for}'s {args[0].__name__}", args[0].__module__)  # it decorates a function
        raise cls.refusal()

    def refusal(cls) -> NoStandInError:
        """Return the error of a program that uses it."""
        return NoStandInError(f"{cls.stands_for} has no stand-in{cls.reason}")

    def __getitem__(cls, item: Any) -> Any:
        """Return itself, as in the annotation ``Output[int]`` and in ``kernel[grid](...)``."""
        return cls

    def __iter__(cls) -> Any:  # else Python would ask for items without end
        raise cls.refusal()

    def __getattr__(cls, name: str) -> Any:
        return part(cls.stands_for, name, sys._getframe(1))


def placeholder(stands_for: str, module: str, kind: type[Placeholder] = Placeholder) -> Any:
    """Return the placeholder for a full name, which says that it is of ``module``."""
    name = stands_for.rpartition(".")[2]
    return kind(name, (), {"stands_for": stands_for, "__module__": module, "__qualname__": name})


def part(stands_for: str, name: str, frame: Any) -> Any:
    """Return the placeholder for a name that ``frame`` asks of something by its full name. Raise NoStandInError, an
    AttributeError, if it only asks whether it is there; AttributeError for Python's own protocols."""
    if name == "__version__":
        raise NoStandInError(f"{stands_for}.{name} has no stand-in")
    if name.startswith("__"):
        raise AttributeError(name)
    if not asking.names_it(frame):
        raise NoStandInError(f"{stands_for}.{name} has no stand-in")
    return placeholder(f"{stands_for}.{name}", stands_for)


def parts_of(module: Any) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a stand-in's module, which keeps each placeholder that it makes."""

    def lacking(name: str) -> Any:
        made = part(module.__name__, name, sys._getframe(1))
        setattr(module, name, made)
        return made

    return lacking
