"""Classes that frameworks import, or ask a module's type for, before they need one. None can be made here."""

from __future__ import annotations

from typing import Any

from harness.probe.no_stand_in import NoStandInError


def refusing(name: str, base: type, remedy: str) -> Any:
    """The class of that full name, a ``base``. Making one raises NoStandInError, which says ``remedy``."""

    def __new__(cls: Any, *_: Any, **__: Any) -> Any:
        raise NoStandInError(f"{name} has no stand-in", remedy)

    return type(base)(name.rpartition(".")[2], (base,), {"__new__": __new__})
