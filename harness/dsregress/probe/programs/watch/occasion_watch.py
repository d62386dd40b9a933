"""Calls of a program that are a phase while they last: it loads, generates, evaluates, offloads or saves.

`CALLS` lists the library calls by which programs do so. Everything within such a call is part of it, so the outermost
counts: a checkpoint is one *save* with all its files. If a library first gathers a whole model and then generates, the
call that does both is the phase.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from vgpu.replacing import Patches

_ENGINE = ("deepspeed.runtime.engine", "DeepSpeedEngine")
_ZERO_3 = ("deepspeed.runtime.zero.stage3", "DeepSpeedZeroOptimizer_Stage3")
_TRAINER = ("transformers.trainer", "Trainer")
_STATE_DICT = "torch.distributed.checkpoint.state_dict"

#: Phase -> (module, class or "", functions). A release that lacks one must be named in `_RELEASES`; what a program never
#: imports is ignored.
CALLS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "load": (
        ("transformers.modeling_utils", "PreTrainedModel", ("from_pretrained",)),
        ("peft.peft_model", "PeftModel", ("from_pretrained",)),
        ("diffusers.models.modeling_utils", "ModelMixin", ("from_pretrained",)),
        (*_ENGINE, ("load_checkpoint",)),
    ),
    "generate": (
        ("transformers.generation.utils", "GenerationMixin", ("generate",)),
        ("deepspeed.runtime.hybrid_engine", "DeepSpeedHybridEngine", ("generate",)),
        ("trl.models.utils", "", ("unwrap_model_for_generation",)),
    ),
    "evaluate": (
        (*_TRAINER, ("evaluate", "predict")),
        ("deepspeed.runtime.pipe.engine", "PipelineEngine", ("eval_batch",)),
    ),
    "offload_states": ((*_ENGINE, ("offload_states",)), (*_ZERO_3, ("offload_states",))),
    "reload_states": ((*_ENGINE, ("reload_states",)), (*_ZERO_3, ("reload_states",))),
    "save": (
        (*_TRAINER, ("save_model", "_save_checkpoint")),
        (*_ENGINE, ("save_checkpoint", "save_16bit_model", "_zero3_consolidated_16bit_state_dict")),
        ("accelerate.accelerator", "Accelerator", ("get_state_dict", "save_model", "save_state")),
        ("transformers.modeling_utils", "PreTrainedModel", ("save_pretrained",)),
        ("peft.peft_model", "PeftModel", ("save_pretrained",)),
        (_STATE_DICT, "", ("get_state_dict", "get_model_state_dict", "get_optimizer_state_dict")),
        ("torch.distributed.checkpoint.state_dict_saver", "", ("save", "async_save")),
        ("safetensors.torch", "", ("save_file", "save_model")),
        ("torch.serialization", "", ("save",)),
    ),
}

#: (module, function) -> the releases that have the function.
_RELEASES: dict[tuple[str, str], dict[str, str]] = {
    **{
        (module, name): {"since": "deepspeed 0.15.3"}  # by then: 0.15.1 does not have it
        for module in (_ENGINE[0], _ZERO_3[0])
        for name in ("offload_states", "reload_states")
    },
    ("torch.distributed.checkpoint.state_dict_saver", "async_save"): {"since": "torch 2.3"},
    ("trl.models.utils", "unwrap_model_for_generation"): {"absent": "releases of TRL keep it elsewhere, or have none"},
}

#: Calls that receive what they save, and the name of that argument: all other saving ends in these.
_SAVED = {
    ("safetensors.torch", "save_file"): "tensors",
    ("torch.serialization", "save"): "obj",
    ("torch.distributed.checkpoint.state_dict_saver", "save"): "state_dict",
    ("torch.distributed.checkpoint.state_dict_saver", "async_save"): "state_dict",
}

#: Further names under which libraries import a function.
_ALIASES = {("safetensors.torch", "save_file"): ("safe_save_file",)}

Occasion = Callable[[str], AbstractContextManager[None]]


class OccasionWatch:
    """Runs each of `CALLS` in ``occasion(phase)`` within the block, nested calls included, and passes what is saved to
    ``saves``. Raises nothing of its own."""

    def __init__(self, occasion: Occasion, saves: Callable[[Any], None]) -> None:
        self._occasion = occasion
        self._saves = saves
        self._patches = Patches("a phase while the call lasts")
        self._gone: set[tuple[str, str, str]] = set()  #: calls that this release lacks
        self._waiting = [
            (phase, module, owner, name)
            for phase, calls in CALLS.items()
            for module, owner, names in calls
            for name in names
        ]

    def __enter__(self) -> OccasionWatch:
        self.look()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._patches.close()

    def look(self) -> None:
        """Watch what has been imported so far."""
        self._waiting = [call for call in self._waiting if not self._watch(*call)]

    def _watch(self, phase: str, module: str, owner: str, name: str) -> bool:
        """Patch the call if its module is loaded; return True if it was patched."""
        imported = sys.modules.get(module)
        if imported is None or (module, owner, name) in self._gone:
            return False
        place: Any = vars(imported).get(owner) if owner else imported
        original = vars(place).get(name) if place is not None else None
        if original is None:
            if not self._is_inherited(imported, module, owner, name):
                return False
            original = inspect.getattr_static(place, name)
        if not owner:
            watched = self._watched(phase, self._seen(original, _SAVED.get((module, name))))
            for known_as in (name, *_ALIASES.get((module, name), ())):
                self._patches.everywhere(original, watched, known_as)
        elif isinstance(original, classmethod):
            self._patches.replace(place, name, classmethod(self._watched(phase, original.__func__)))
        else:
            self._patches.replace(place, name, self._watched(phase, original))
        return True

    def _is_inherited(self, imported: Any, module: str, owner: str, name: str) -> bool:
        """Return True if the call's class inherits it; False if the module is still being imported, or the release lacks
        the call. Raise MissingTarget if no release may."""
        if getattr(getattr(imported, "__spec__", None), "_initializing", False):
            return False
        releases = _RELEASES.get((module, name), {})
        here = not owner or self._patches.has(imported, owner, **releases)
        place = getattr(imported, owner, None) if owner else imported
        if owner and here and place.__module__.partition(".")[0] != module.partition(".")[0]:
            releases = {"absent": "a replacement of the class has only what programs need"}
        here = here and self._patches.has(place, name, **releases)
        if not here:
            self._gone.add((module, owner, name))
        return here

    def _seen(self, original: Callable[..., Any], argument: str | None) -> Callable[..., Any]:
        """Return the function that also passes what is saved to ``saves``: its first argument, named ``argument``."""
        if argument is None:
            return original

        @functools.wraps(original)
        def seen(*args: Any, **kwargs: Any) -> Any:
            if not _is_in_memory(args, kwargs):
                self._saves(args[0] if args else kwargs.get(argument))
            return original(*args, **kwargs)

        return seen

    def _watched(self, phase: str, original: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(inspect.unwrap(original)):  # behind ``contextmanager``

            @functools.wraps(original)
            @contextlib.contextmanager
            def entered(*args: Any, **kwargs: Any) -> Iterator[Any]:
                with self._occasion(phase), original(*args, **kwargs) as held:
                    yield held
                    del held

            return entered

        @functools.wraps(original)
        def called(*args: Any, **kwargs: Any) -> Any:
            if _is_in_memory(args, kwargs):
                return original(*args, **kwargs)
            with self._occasion(phase):
                return original(*args, **kwargs)

        return called


def _is_in_memory(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return True if torch pickles a tensor that is sent to another rank: it writes into memory."""
    return any(isinstance(value, io.BytesIO) for value in (*args, *kwargs.values()))
