"""Errors that CPU ranks have and GPUs need not: of code that runs in place of a card's."""

from __future__ import annotations

import re
import traceback
import types

from dsregress.probe.border import encoding
from vgpu.error_chain import behind_one_another

#: The last line of the detail of such an error.
OF_PROCESSORS = "This may happen on CPU ranks only."

#: Modules that stand for a card's where there is none, and their files.
_MODULES = ("torch.cpu", "deepspeed.accelerator.cpu_accelerator")
_FILES = tuple(f"/{name.replace('.', '/')}" for name in _MODULES)

#: How gloo refuses what NCCL does.
_OF_GLOO = re.compile(r"ProcessGroupGloo|\bgloo\b.{0,80}\b(?:not|un)\s?(?:support|implement)", re.IGNORECASE)


def is_of_processors(error: BaseException) -> bool:
    """Return True if an error, or one behind it, was raised in such a module, is of an attribute that one of its objects
    lacks, or is a refusal of gloo."""
    return any(_is_of_them(one) for one in behind_one_another(error))


def _is_of_them(error: BaseException) -> bool:
    lacks = isinstance(error, AttributeError) and _is_theirs(error.obj)
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    raised_there = any(file in frame.filename for frame in frames for file in _FILES)
    return lacks or raised_there or _OF_GLOO.search(encoding.bounded_text(error)) is not None


def _is_theirs(one: object) -> bool:
    if isinstance(one, types.ModuleType):
        return one.__name__.startswith(_MODULES)
    owner = one if isinstance(one, type) else type(one)
    return str(owner.__module__).startswith(_MODULES)
