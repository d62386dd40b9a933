"""Modules that frameworks import lazily, in a fork: its parent imports them once, so that later forks need not.
DeepSpeed 0.19.8 imports six hundred modules in ``initialize``, for two seconds."""

from __future__ import annotations

import gc
import importlib
import sys
import warnings
from collections.abc import Collection


def new_modules(before: Collection[str]) -> list[str]:
    """Return the names of modules imported since. A framework may put anything into ``sys.modules``."""
    return sorted(name for name in set(sys.modules).difference(before) if isinstance(name, str))


def import_all(modules: Collection[str]) -> None:
    """Import what a fork imported, and exempt it from garbage collection in later forks."""
    missing = [module for module in modules if module not in sys.modules]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fork has shown them
        for module in missing:
            try:
                importlib.import_module(module)
            except Exception:  # some modules can be imported in a rank only, and each rank then imports them
                pass
    if missing:
        gc.collect()
        gc.freeze()
