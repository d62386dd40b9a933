"""Composers: the functions that write the scripts of a framework, in one table."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dsregress.probe.adapters import DEEPSPEED, TRAINER
from dsregress.reproduce import script, trainer_script
from dsregress.reproduce.script import LAYERS, TRANSFORMERS, Script, Subject


class Composer(msgspec.Struct, frozen=True, kw_only=True):
    """The function that writes a script, and the models to try in it, the simplest first."""

    compose: Callable[[Subject], Script]  #: raises NoFragment
    models: tuple[str, ...]


_COMPOSERS = {
    DEEPSPEED: Composer(compose=script.compose, models=(LAYERS, TRANSFORMERS)),
    TRAINER: Composer(compose=trainer_script.compose, models=(TRANSFORMERS,)),
}


def composer(framework: str) -> Composer:
    """Return the composer of an adapter, by its name."""
    return _COMPOSERS[framework]
