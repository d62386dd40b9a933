"""Packages whose compiled parts cannot be loaded here. They are tiny ones, that fail as the real ones do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsregress.probe import cuda_wheels

TORCHAUDIO = """
from torchaudio import _extension
from torchaudio._extension import fail_if_no_align

@fail_if_no_align
def forced_align(): ...

def resample(): return "resampled"
"""

EXTENSION = """
def _load_lib(): raise OSError("Could not load this library: torchaudio/lib/_torchaudio.abi3.so")
_IS_TORCHAUDIO_EXT_AVAILABLE = _load_lib()
"""

TORCHVISION = """
import torch

@torch.library.register_fake("torchvision::nms")
def meta_nms(): return "described"
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    known = dict(sys.modules)
    yield tmp_path
    sys.modules.clear()
    sys.modules.update(known)


def package(folder: Path, name: str, text: str) -> None:
    place = folder / name.replace(".", "/") / "__init__.py"
    place.parent.mkdir(parents=True)
    place.write_text(text)


def test_torchaudio_is_imported_without_its_extension_and_refuses_what_needs_it(site: Path) -> None:
    package(site, "torchaudio", TORCHAUDIO)
    package(site, "torchaudio._extension", EXTENSION)
    cuda_wheels.import_without_extensions()
    torchaudio = importlib.import_module("torchaudio")
    assert torchaudio.resample() == "resampled"
    assert torchaudio._extension._IS_TORCHAUDIO_EXT_AVAILABLE is False
    with pytest.raises(RuntimeError, match="torchaudio's forced_align needs its extension, which is built for CUDA"):
        torchaudio.forced_align()


def test_an_extension_that_loads_is_left_as_it_is(site: Path) -> None:
    package(site, "torchaudio", TORCHAUDIO)
    package(
        site,
        "torchaudio._extension",
        "_IS_TORCHAUDIO_EXT_AVAILABLE = True\ndef fail_if_no_align(function): return function",
    )
    cuda_wheels.import_without_extensions()
    torchaudio = importlib.import_module("torchaudio")
    assert torchaudio._extension._IS_TORCHAUDIO_EXT_AVAILABLE is True
    assert torchaudio.forced_align() is None


def test_torchvision_that_describes_an_operator_which_is_not_there_is_imported(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.library, "register_fake", torch.library.register_fake)
    package(site, "torchvision", TORCHVISION)
    cuda_wheels.import_without_extensions()
    assert importlib.import_module("torchvision").meta_nms() == "described"
