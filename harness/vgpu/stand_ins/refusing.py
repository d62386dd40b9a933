"""Classes that frameworks import, or compare a module's type with, before they need one. None can be instantiated here."""

from __future__ import annotations

from typing import Any

from vgpu.no_stand_in import NoStandInError


def refusing(name: str, base: type, remedy: str) -> object:
    """Return the class of that full name, a subclass of ``base``. Instantiating it raises NoStandInError with ``remedy``."""

    def __new__(cls: object, *_: object, **__: object) -> Any:
        raise NoStandInError(f"{name} has no stand-in", remedy)

    return type(base)(name.rpartition(".")[2], (base,), {"__new__": __new__})
