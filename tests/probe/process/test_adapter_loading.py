"""A module that is no adapter, or whose function is misspelled, is refused when it is loaded. Without torch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dsregress.probe import adapters
from dsregress.probe.border.own_faults import own_fault
from dsregress.probe.framework import ComputesIdeal, JobAdapter, KeepsTime, ListsHolders, NamesModules, NamesPackage
from dsregress.probe.process.adapter_loading import AdapterError, ProgramAdapter, load_adapter, protocol_names

REQUIRED = """
import contextlib
def preload(device): ...
def world_size(parameters, device): return 1
def surroundings(parameters, device): return contextlib.nullcontext()
def start(parameters, device, shape, measured): ...
def judge(parameters, device, shape, steps, trained, numerics): ...
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules can be imported as ``mine.NAME``."""
    monkeypatch.syspath_prepend(tmp_path)
    made = tmp_path / "mine"
    made.mkdir()
    (made / "__init__.py").touch()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        monkeypatch.delitem(sys.modules, name)
    return made


def test_a_module_with_the_required_functions_is_an_adapter_of_jobs(package: Path) -> None:
    (package / "whole.py").write_text(REQUIRED)
    adapter = load_adapter("mine.whole")
    assert isinstance(adapter, JobAdapter)
    optional = (ProgramAdapter, ComputesIdeal, KeepsTime, NamesModules, ListsHolders, NamesPackage)
    assert not any(isinstance(adapter, protocol) for protocol in optional)


def test_each_optional_function_is_found(package: Path) -> None:
    (package / "more.py").write_text(
        REQUIRED
        + "def ideal(parameters, device, shape, meter): ...\ndef stopwatch(device): ...\ndef model(training): ...\n"
        "def holders(training): ...\nPACKAGE = 'mine'\n"
    )
    adapter = load_adapter("mine.more")
    assert isinstance(adapter, ComputesIdeal)
    assert isinstance(adapter, KeepsTime)
    assert isinstance(adapter, NamesModules)
    assert isinstance(adapter, ListsHolders)
    assert isinstance(adapter, NamesPackage)


@pytest.mark.parametrize(
    ("misspelled", "meant"),
    [("idael", "ideal"), ("holder", "holders"), ("stop_watch", "stopwatch"), ("models", "model"), ("Judge", "judge")],
)
def test_a_misspelled_function_is_an_error(package: Path, misspelled: str, meant: str) -> None:
    (package / "typo.py").write_text(f"{REQUIRED}def {misspelled}(training): ...\n")
    with pytest.raises(AdapterError) as raised:
        load_adapter("mine.typo")
    assert str(raised.value) == (
        f"mine.typo defines {misspelled!r}, and adapters have {meant!r}: call it so, or _{misspelled} if it is a helper"
    )


def test_a_misspelled_package_is_an_error(package: Path) -> None:
    (package / "typo.py").write_text(f"{REQUIRED}PACKGE = 'mine'\n")
    with pytest.raises(AdapterError, match="defines 'PACKGE', and adapters have 'PACKAGE'"):
        load_adapter("mine.typo")


def test_helpers_and_imports_are_no_misspellings(package: Path) -> None:
    (package / "helped.py").write_text(
        "from os.path import join as models\n" + REQUIRED + "def batch(step): ...\ndef _ideal(): ...\n"
    )
    assert isinstance(load_adapter("mine.helped"), JobAdapter)


def test_a_module_that_lacks_functions_is_told_which(package: Path) -> None:
    (package / "half.py").write_text(REQUIRED.replace("def judge", "def _judge").replace("def start", "def _start"))
    with pytest.raises(AdapterError) as raised:
        load_adapter("mine.half")
    assert str(raised.value) == (
        "mine.half is no adapter, as it does not define judge, start: see docs/add-a-framework.md"
    )
    assert own_fault(raised.value) is not None  # and not a release's failure


@pytest.mark.parametrize("adapter", adapters.ADAPTERS)
def test_each_adapter_of_the_project_is_of_one_kind(adapter: str) -> None:
    loaded = load_adapter(adapter)
    assert isinstance(loaded, JobAdapter) != isinstance(loaded, ProgramAdapter)
    assert isinstance(loaded, ProgramAdapter) == (adapter == adapters.PROGRAM)


def test_a_protocol_s_names_are_those_that_it_inherits_too() -> None:
    assert protocol_names(JobAdapter) == {"preload", "world_size", "surroundings", "start", "judge"}
    assert protocol_names(NamesPackage) == {"PACKAGE"}
