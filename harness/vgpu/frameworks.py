"""The imports of frameworks ahead of a program's own: a virtual card is attached to what has been imported."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import typing

from vgpu import intel_packages, stand_ins

#: Modules that nearly every program imports. They are imported ahead, if the environment has them.
_USUAL = ("transformers", "accelerate", "transformers.configuration_utils", "transformers.trainer", "peft", "datasets")


def import_usual(*, virtual: bool) -> None:
    """Import what nearly every program imports, as far as it is installed, for a ``virtual`` card or for a GPU."""
    with stand_ins.there_at_import() if virtual else contextlib.nullcontext():
        for name in _USUAL:
            _forget_annotations()
            with contextlib.suppress(ImportError, AttributeError):
                importlib.import_module(name)


def _forget_annotations() -> None:
    """Clear the caches of `typing`, in which ``Union[str, dict]`` and ``Union[dict, str]`` are one: the spelling that a
    class gets depends on what was imported before it, and transformers' ``HfArgumentParser`` takes ``--deepspeed
    zero3.json`` for a file or for a dictionary by that order. Our imports must not decide it."""
    for clear in vars(typing)["_cleanups"]:
        clear()


def import_deepspeed() -> None:
    """Import DeepSpeed, if it is installed, with the accelerator that ``DS_ACCELERATOR`` names. It then determines once, for
    all ranks that are forked, which of its operators it can build."""
    if importlib.util.find_spec("deepspeed") is None:
        return
    intel_packages.import_deepspeed()
    import deepspeed

    assert deepspeed.ops.__compatible_ops__ is not None
