"""A library's error names the package that is not here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from dsregress.programs.launch import absent_packages


@pytest.mark.parametrize(
    ("error", "needed"),
    [
        (
            ImportError(
                "\nLlamaTokenizer requires the SentencePiecework library but it was not found in your environment. Check "
                "out the instructions on the\ninstallation page of its repo: https://github.com/google/x#installation"
            ),
            ["sentencepiecework"],
        ),
        (ImportError("X requires the Fitz library but it was not found in your environment."), ["pymupdf"]),
        (ImportError("It needs scikit. Install it with `pip install -U 'absent-learn>=1'`"), ["absent-learn"]),
        (RuntimeError("Ninny is required (pip install absent_ninny to get it)"), ["absent_ninny"]),
        (ValueError("You need to have Absent_Looked_For installed to convert it."), ["absent_looked_for"]),
        (ImportError("Absent_looked_for is not available and `use_it` is set."), ["absent_looked_for"]),
        (ImportError("Neither `absent_looked_for` nor `absent_other` is available."), ["absent_looked_for"]),
        (RuntimeError("cannot load MPI library\nlibmpi.so.12: cannot open shared object file"), ["mpich"]),
        (ValueError("absent_looked_for kernels diverged"), []),
        (ValueError("some other thing is not installed"), []),
        (ImportError("`low_memory` requires a newer pytest: `pip install 'pytest>=99'`"), []),
        (ImportError("Install it by pip install git+https://github.com/x/absent or pip install ./absent"), []),
        (ImportError("cannot import name 'absent_looked_for' from 'pytest'", name="pytest"), []),
    ],
)
def test_a_package_that_is_not_here_is_named(error: Exception, needed: list[str]) -> None:
    absent_packages.watch_absence()
    assert importlib.util.find_spec("absent_looked_for") is importlib.util.find_spec("absent_other") is None
    assert absent_packages.packages_asked_for(error) == needed


def test_the_error_that_caused_it_counts() -> None:
    absent_packages.watch_absence()
    outer = RuntimeError("Failed to import transformers.trainer because of the following error")
    try:
        import absent_cause  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        outer.__cause__ = error
    assert absent_packages.packages_asked_for(outer) == ["absent_cause"]
    handled = RuntimeError("out of memory")
    handled.__context__ = outer.__cause__
    assert absent_packages.packages_asked_for(handled) == []


def test_a_tokenizer_that_cannot_be_converted_needs_what_reads_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers 4 fails for an attribute of None then, and 5 asks for tiktoken."""
    converter: dict[str, object] = {"__name__": "transformers.convert_slow_tokenizer"}
    exec("def convert(file): return file.endswith('json')", converter)
    with pytest.raises(AttributeError) as failed:
        converter["convert"](None)  # type: ignore[operator]
    monkeypatch.setattr(absent_packages, "_is_here", lambda package: False)
    assert absent_packages.packages_asked_for(failed.value) == ["protobuf", "sentencepiece"]
    monkeypatch.setattr(absent_packages, "_is_here", lambda package: True)
    assert absent_packages.packages_asked_for(failed.value) == []


def test_the_package_that_transformers_asks_for_next_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absent_packages, "_is_here", lambda package: False)
    error = ImportError("AutoImageProcessor requires the PIL library but it was not found in your environment.")
    assert absent_packages.packages_asked_for(error) == ["pillow", "torchvision"]


def test_of_an_installed_package_the_missing_packages_of_its_extras_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "extended.py").touch()
    (tmp_path / "extended-1.0.dist-info").mkdir()
    (tmp_path / "extended-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: extended\nVersion: 1.0\n"
        'Requires-Dist: absent-parser>=0.17; extra == "signatures"\n'
        'Requires-Dist: extended[typing]; extra == "signatures"\n'
        'Requires-Dist: absent_types ==0.5.52 ; extra == "typing"\n'
        'Requires-Dist: absent_other; extra == "other"\n'
        'Requires-Dist: pytest; extra == "signatures"\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    error = ModuleNotFoundError("Requirement not met. HINT: Try running `pip install -U 'extended[signatures]>=0.9'`")
    assert absent_packages.packages_asked_for(error) == ["absent-parser", "absent_types=0.5.52"]
    assert absent_packages.packages_asked_for(ImportError("`pip install extended`")) == []
