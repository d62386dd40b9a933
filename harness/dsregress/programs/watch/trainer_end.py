"""Lets a trainer that runs come to its own end: it may save, evaluate, load its best weights, and call what waits for it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

OF_TRANSFORMERS = "transformers.trainer"  #: the module of its Trainer

#: Modules of the trainers of Lightning.
_OF_LIGHTNING = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer")


def ends_with_this_step() -> bool:
    """Tell the trainer whose code is running that its current step is its last one, as it would end by itself; False if
    there is none. To be called in the optimizer's step."""
    trainer = running(sys._getframe(1), (OF_TRANSFORMERS,))
    if isinstance(done := getattr(getattr(trainer, "state", None), "global_step", None), int):
        trainer.state.max_steps = done + 1
        return True
    trainer = running(sys._getframe(1), _OF_LIGHTNING)
    if trainer is not None:
        trainer.should_stop = True
    return trainer is not None


def running(frame: FrameType | None, modules: tuple[str, ...]) -> Any:
    """Return the innermost running object of a class ``Trainer`` of one of the modules, found by the frames of its methods;
    None if there is none."""
    kinds = tuple(kind for name in modules if isinstance(kind := getattr(sys.modules.get(name), "Trainer", None), type))
    while kinds and frame is not None:
        own = frame.f_locals.get("self")
        if isinstance(own, kinds):
            return own
        frame = frame.f_back
    return None
