"""The refusal of a stand-in of the harness's that lacks a part: no fault of the release that needs it.

Standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from vgpu.error_chain import behind_one_another

#: Packages that are built for a GPU, and have no stand-in. A program that imports one without asking first gets placeholders
#: of its names, each refused when it is called.
_NAMES = "apex causal_conv1d deep_ep deep_gemm flashinfer grouped_gemm mamba_ssm megablocks natten transformer_engine"
WITHOUT_STAND_IN = (*_NAMES.split(), "vllm", "xformers")

_WAY_OUT = "leave out what needs it, or run on cuda"

#: Called with the message of each such error, also of one that a program catches.
_missed: list[Callable[[str], None]] = []


class NoStandInError(NotImplementedError, AttributeError):
    """A program needs a part of something compiled that its stand-in does not have; one line names the part and the way out.

    An AttributeError, so that ``hasattr`` and ``getattr`` with a default answer as for any other object.
    """

    says_what_to_do = True

    def __init__(self, what: str, remedy: str = _WAY_OUT) -> None:
        super().__init__(f"{what}: {remedy}")
        for missed in _missed:
            missed(str(self))


class StandIn:
    """Stands for an object of something compiled, by its full name, with those of its parts that have a stand-in."""

    _stands_for = ""

    def __init__(self, stands_for: str, **parts: object) -> None:
        vars(self).update(parts, _stands_for=stands_for)

    def __getattr__(self, name: str) -> Any:
        return lacking(self._stands_for)(name)


def lacking(stands_for: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a stand-in, which raises NoStandInError; AttributeError for Python's own protocols."""

    def missing(name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else NoStandInError(f"{stands_for}.{name} has no stand-in")

    return missing


@contextlib.contextmanager
def refused(not_found: Callable[[BaseException], str]) -> Iterator[None]:
    """Turn an error into a NoStandInError within the block, if ``not_found`` returns the name that the error, or one that it
    reports, has not found; it returns an empty text for a name that belongs to no stand-in."""
    try:
        yield
    except Exception as error:  # a program may have wrapped it in any other; raised again unless it is ours
        said = [not_found(one) for one in behind_one_another(error) if not isinstance(one, NoStandInError)]
        if what := next(filter(None, said), ""):
            raise NoStandInError(f"{what} has no stand-in").with_traceback(error.__traceback__) from error
        raise


@contextlib.contextmanager
def reported(missed: Callable[[str], None]) -> Iterator[None]:
    """Call ``missed`` with the message of each NoStandInError within the block, also if the program catches it."""
    _missed.append(missed)
    try:
        yield
    finally:
        _missed.remove(missed)
