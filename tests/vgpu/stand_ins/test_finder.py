"""Stand-ins are found while they are wanted, and are gone afterwards, whatever else is imported."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")

from vgpu.stand_ins import finder


class Lazy(ModuleType):
    """As transformers 5.0 has them: a question about a name is answered by an import."""

    def __getattr__(self, name: str) -> Any:
        sys.modules[f"{self.__name__}.{name}"] = ModuleType(name)
        raise AttributeError(name)


def test_they_are_taken_away_beside_a_module_that_imports_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lazy_framework", Lazy("lazy_framework"))
    package = finder.Package("made_up_kernels", "made-up-kernels", "1.0", {"made_up_kernels": ()})
    with finder.found([package]) as missing:
        assert missing == (package,)
        __import__("made_up_kernels")
    assert "made_up_kernels" not in sys.modules
    assert not [name for name in sys.modules if name.startswith("lazy_framework.")]
