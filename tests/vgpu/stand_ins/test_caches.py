"""What was imported before a stand-in was there finds it, as the real package would be found."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest

pytest.importorskip("torch")

from vgpu import stand_ins
from vgpu.stand_ins import caches
from vgpu.stand_ins.finder import Package

#: As transformers 4.43 to 4.52 have it: a name that is None without the package, and one that is there only with it.
ASKS = """
import importlib.util
flash_attn_func = None
def is_flash_attn_2_available():
    return importlib.util.find_spec("flash_attn") is not None
if is_flash_attn_2_available():
    from flash_attn import flash_attn_func
    from flash_attn.layers.rotary import apply_rotary_emb
def attention_function():
    return flash_attn_func
"""


def test_a_module_that_asked_while_it_was_imported_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asks_early.py").write_text(ASKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(caches, "_ASK_AT_THE_TOP", "asks_early")
    early = importlib.import_module("asks_early")
    taken_before = early.attention_function
    assert taken_before() is None
    with stand_ins.provided("cpu"):
        assert early.apply_rotary_emb.__module__.startswith(("flash_attn", "vgpu"))
        assert taken_before() is early.flash_attn_func is not None
    assert early.flash_attn_func is None
    assert not hasattr(early, "apply_rotary_emb")
    del sys.modules["asks_early"]


#: As peft has it up to 0.7.
ASKS_ONCE = """
import importlib.util
if importlib.util.find_spec("bitsandbytes") is not None:
    import bitsandbytes as bnb
"""


def test_what_was_imported_ahead_of_a_program_has_what_the_program_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("bitsandbytes") is not None:
        pytest.skip("bitsandbytes is installed")
    (tmp_path / "asks_once.py").write_text(ASKS_ONCE)
    monkeypatch.syspath_prepend(tmp_path)
    with stand_ins.there_at_import():
        ahead = importlib.import_module("asks_once")
    assert importlib.util.find_spec("bitsandbytes") is None
    with stand_ins.provided("cpu"):
        assert ahead.bnb.nn.Linear8bitLt is importlib.import_module("bitsandbytes.nn").Linear8bitLt
    del sys.modules["asks_once"]


#: As transformers has it.
ASKS_WITH_A_CACHE = """
import functools, importlib.util
@functools.lru_cache
def is_flash_attn_2_available():
    return importlib.util.find_spec("flash_attn") is not None
"""


def test_what_was_cached_is_forgotten_after_an_error_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("flash_attn") is not None:
        pytest.skip("flash_attn is installed")
    (tmp_path / "asker").mkdir()
    (tmp_path / "asker" / "import_utils.py").write_text(ASKS_WITH_A_CACHE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(caches, "_ASKING", ("asker.import_utils",))
    asker = importlib.import_module("asker.import_utils")
    assert not asker.is_flash_attn_2_available()

    def fails() -> None:
        with stand_ins.provided("cpu"):
            assert asker.is_flash_attn_2_available()
            raise ValueError("in it")

    with pytest.raises(ValueError, match="^in it$"):
        fails()
    assert not asker.is_flash_attn_2_available()
    del sys.modules["asker.import_utils"], sys.modules["asker"]


def test_a_constant_that_names_the_major_release_is_set_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers 4.35 keeps whether flash-attn 2 is there while it is imported; flash-attn 3 is another package."""
    asker = types.ModuleType("transformers.utils.import_utils")
    vars(asker).update(_flash_attn_2_available=False, _flash_attn_3_available=False)
    monkeypatch.setitem(sys.modules, asker.__name__, asker)
    package = Package("flash_attn", "flash_attn", "2.8.3", {})
    with caches.refreshed([package]):
        assert vars(asker)["_flash_attn_2_available"]
        assert not vars(asker)["_flash_attn_3_available"]
    assert not vars(asker)["_flash_attn_2_available"]
