"""Whoever walks the imported modules imports none by it, and is not disturbed by what others import meanwhile."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from vgpu.loaded import loaded_modules


class Lazy(ModuleType):
    """As transformers has them: a question about a name is answered by an import."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"it is asked for {name}")


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> Lazy:
    module = Lazy("lazy_framework")
    monkeypatch.setitem(sys.modules, "lazy_framework", module)
    return module


def test_a_lazy_module_is_listed_and_asked_nothing(lazy: Lazy) -> None:
    assert ("lazy_framework", lazy, vars(lazy)) in loaded_modules()


def test_what_is_no_module_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, held in enumerate((None, 7, "text")):
        monkeypatch.setitem(sys.modules, f"no_module_{number}", held)
    assert not [name for name, _, _ in loaded_modules() if name.startswith("no_module_")]
