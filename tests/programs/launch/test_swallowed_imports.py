"""A name that a package of the program's own lacks is told by what the package caught."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dsregress.programs.launch.failure_causes import reported_by_importer
from tests.programs.cells import ran

OF_A_LIST = """
for name, classes in {"llama": "Llama, Config", "qwen": "Qwen"}.items():
    try:
        exec(f"from .models.{name} import {classes}")
    except Exception as error:
        print(f"Failed to import {name}: {error}")
"""
PLAIN = "try:\n    from .models.llama import Llama\nexcept Exception:\n    pass\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = tmp_path / "nets"
    (made / "models").mkdir(parents=True)
    (made / "models" / "__init__.py").touch()
    (made / "models" / "qwen.py").write_text("class Qwen: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield made
    for name in [each for each in sys.modules if each.partition(".")[0] == "nets"]:
        del sys.modules[name]


def error_of(name: str) -> Exception:
    with pytest.raises(ImportError) as raised:
        exec(f"from nets import {name}")
    return raised.value


@pytest.mark.parametrize("content", [OF_A_LIST, PLAIN])
@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("from json import no_such_name", "cannot import name 'no_such_name' from 'json'"),
        ("raise RuntimeError('no kernel')", "no kernel"),
    ],
)
def test_the_error_of_the_module_that_has_the_name_is_reported(
    package: Path, content: str, first: str, reason: str
) -> None:
    (package / "__init__.py").write_text(content)
    (package / "models" / "llama.py").write_text(f"{first}\nclass Config: pass\nclass Llama:\n    pass\n")
    assert str(reported_by_importer(error_of("Llama"))).startswith(reason)


def test_a_name_that_no_module_defines_is_its_own_reason(package: Path) -> None:
    (package / "__init__.py").write_text(OF_A_LIST)
    (package / "models" / "llama.py").write_text("import absent_package\nLlamaX = 1\n")
    error = error_of("Llama")
    assert reported_by_importer(error) is error


@pytest.mark.usefixtures("surroundings")
def test_a_program_ends_in_that_error(folder: Path) -> None:
    (folder / "nets" / "models").mkdir(parents=True)
    (folder / "nets" / "__init__.py").write_text(OF_A_LIST)
    (folder / "nets" / "models" / "llama.py").write_text(
        "import absent_package\nclass Llama: pass\nclass Config: pass\n"
    )
    (folder / "train.py").write_text("import torch\nfrom nets import Llama\n")
    record = ran(folder, "sim", 1, "python train.py")
    assert (
        record.signature == "CannotRun: train.py lacks the module 'absent_package': add its package with --with PACKAGE"
    )


@pytest.mark.usefixtures("surroundings")
def test_the_place_of_that_error_is_the_programs(folder: Path) -> None:
    (folder / "nets" / "models").mkdir(parents=True)
    (folder / "nets" / "__init__.py").write_text(OF_A_LIST)
    (folder / "nets" / "models" / "llama.py").write_text("from .parts import Llama, Config\nclass Llama: pass\n")
    (folder / "nets" / "models" / "parts.py").write_text("from torch.nn import no_such_layer\n")
    (folder / "train.py").write_text("import torch\nfrom nets import Llama\n")
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature == (
        "ImportError: cannot import name 'no_such_layer' from 'torch.nn' (torch/nn/__init__.py) (parts.py:1)"
    )
