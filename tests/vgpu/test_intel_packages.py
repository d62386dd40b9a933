"""DeepSpeed's CPU accelerator without Intel's packages, by a tiny DeepSpeed that asks for them as the real one does."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpu import intel_packages

DEMANDS = """
import intel_extension_for_pytorch
import oneccl_bindings_for_pytorch

class CPU_Accelerator:
    _communication_backend_name = "ccl"
    def communication_backend_name(self): return self._communication_backend_name
"""

ASKS = """
class CPU_Accelerator:
    try:
        import oneccl_bindings_for_pytorch
        _communication_backend_name = "ccl"
    except ImportError:
        _communication_backend_name = "gloo"
    def communication_backend_name(self): return self._communication_backend_name
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    known = dict(sys.modules)
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepspeed"]:
        del sys.modules[name]
    yield tmp_path
    sys.modules.clear()
    sys.modules.update(known)


def release(folder: Path, accelerator: str) -> None:
    package = folder / "deepspeed" / "accelerator"
    package.mkdir(parents=True)
    (folder / "deepspeed" / "__init__.py").write_text("from deepspeed.accelerator import get_accelerator\n")
    (package / "__init__.py").write_text(
        "from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator\n"
        "_made = CPU_Accelerator()\n"
        "def get_accelerator(): return _made\n"
    )
    (package / "cpu_accelerator.py").write_text("# a licence\n" + accelerator)


@pytest.mark.parametrize("accelerator", [DEMANDS, ASKS])
def test_a_release_talks_gloo_without_intels_packages_which_stay_absent(site: Path, accelerator: str) -> None:
    release(site, accelerator)
    intel_packages.import_deepspeed()
    assert sys.modules["deepspeed"].get_accelerator().communication_backend_name() == "gloo"
    assert importlib.util.find_spec("oneccl_bindings_for_pytorch") is None
    assert "intel_extension_for_pytorch" not in sys.modules


def test_intels_own_packages_are_used_where_they_are_installed(site: Path) -> None:
    for name in ("intel_extension_for_pytorch", "oneccl_bindings_for_pytorch"):
        (site / f"{name}.py").write_text("")
    release(site, DEMANDS)
    intel_packages.import_deepspeed()
    assert sys.modules["deepspeed"].get_accelerator().communication_backend_name() == "ccl"
