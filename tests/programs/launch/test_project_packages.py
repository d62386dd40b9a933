"""What a project's own installation would make importable."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import pytest

from dsregress.programs.launch import project_packages


def _package(folder: Path, name: str, text: str = "") -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)


@pytest.mark.parametrize("place", [".", "src"])
def test_a_projects_own_packages_are_found(tmp_path: Path, place: str) -> None:
    (tmp_path / "pyproject.toml").touch()
    name = f"own_package_{place.strip('.')}"
    _package(tmp_path / place, name, "x = 1")
    (tmp_path / place / name / "part.py").write_text("y = 2")
    with project_packages.importable(tmp_path):
        assert importlib.import_module(f"{name}.part").y == 2
    assert importlib.util.find_spec(f"{name}_more") is None


def test_a_folder_that_is_no_project_has_none(tmp_path: Path) -> None:
    _package(tmp_path, "own_package_alone")
    with project_packages.importable(tmp_path):
        assert importlib.util.find_spec("own_package_alone") is None


def test_a_mere_folder_is_no_package_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "setup.py").touch()
    (tmp_path / "folder_of_data").mkdir()
    with project_packages.importable(tmp_path):
        assert importlib.util.find_spec("folder_of_data") is None


@pytest.mark.parametrize(("place", "says"), [("src", ""), (".", 'include = ["own_namespace.core"]')])
def test_a_package_without_an_init_file_is_found(tmp_path: Path, place: str, says: str) -> None:
    (tmp_path / "pyproject.toml").write_text(says)
    name = "own_namespace" if says else "own_namespace_of_src"
    (tmp_path / place / name / "core").mkdir(parents=True)
    (tmp_path / place / name / "core" / "model.py").write_text("z = 3")
    with project_packages.importable(tmp_path):
        assert importlib.import_module(f"{name}.core.model").z == 3


def test_a_folder_of_code_that_the_project_does_not_name_hides_no_library(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'own'\n")
    (tmp_path / "library_of_that_name").mkdir()
    (tmp_path / "library_of_that_name" / "prepare.py").touch()
    with project_packages.importable(tmp_path):
        assert importlib.util.find_spec("library_of_that_name") is None


def test_what_the_environment_has_comes_first(tmp_path: Path) -> None:
    (tmp_path / "setup.cfg").touch()
    _package(tmp_path, "pytest", "is_own = True")
    with project_packages.importable(tmp_path):
        spec = importlib.util.find_spec("pytest")
        assert spec is not None
        assert not str(spec.origin).startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (".", "../.."),
        ("src", "../../src"),
        ("projects", ".."),
        ("code/python", "../../code/python"),
        ("vendor/tests", None),
    ],
)
def test_a_module_of_the_project_around_a_folder_is_found(tmp_path: Path, place: str, found: str | None) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "projects" / "adder"
    folder.mkdir(parents=True)
    _package(tmp_path / place, "own_package_above")
    assert project_packages.folder_with_module("own_package_above", folder) == found


def test_a_module_in_several_folders_of_a_project_or_around_no_project_is_not_found(tmp_path: Path) -> None:
    folder = tmp_path / "project" / "examples"
    folder.mkdir(parents=True)
    _package(tmp_path / "project", "own_package_alone")
    assert project_packages.folder_with_module("own_package_alone", folder) is None
    (tmp_path / "project" / "setup.py").touch()
    assert project_packages.folder_with_module("own_package_alone", folder) == ".."
    for name in ("one", "other"):
        _package(tmp_path / "project" / name, "own_package_twice")
    assert project_packages.folder_with_module("own_package_twice", folder) is None


def test_a_package_of_its_own_hides_the_environments_that_was_loaded_before(tmp_path: Path) -> None:
    theirs, own = tmp_path / "site-packages", tmp_path / "own"
    for folder in (theirs, own):
        _package(folder, "package_of_both", f"place = {folder.name!r}")
    (theirs / "package_of_both" / "part.py").touch()
    sys.path.insert(0, str(theirs))
    try:
        loaded = importlib.import_module("package_of_both.part")
        sys.path.insert(0, str(own))
        with project_packages.found_before_the_environment([str(tmp_path / "none"), str(own)]):
            assert importlib.import_module("package_of_both").place == "own"
        assert sys.modules["package_of_both.part"] is loaded
        assert importlib.import_module("package_of_both").place == "site-packages"
    finally:
        sys.path[:] = [path for path in sys.path if path not in (str(theirs), str(own))]
        for name in ("package_of_both", "package_of_both.part"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"pyproject.toml": '[project]\nname = "own-llm"\nversion = "1.2.0"\n'}, "1.2.0"),
        (
            {"pyproject.toml": '[project]\nname = "own-llm"\ndynamic = ["version"]\n', "VERSION": "1.3.0.dev0\n"},
            "1.3.0.dev0",
        ),
        ({"setup.py": "setup(\n    name='own_llm',\n    version='0.4',\n)\n"}, "0.4"),
        ({"setup.cfg": "[metadata]\nname = Own.LLM\n"}, "0"),  # it is not said
    ],
)
def test_a_project_has_the_metadata_of_an_installed_one(tmp_path: Path, files: dict[str, str], version: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with project_packages.importable(tmp_path):
        assert metadata.version("own-llm") == metadata.version("Own_LLM") == version
        with pytest.raises(metadata.PackageNotFoundError):
            metadata.version("another")
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("own-llm")


def test_an_installed_release_comes_before_the_project_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pytest"\nversion = "9.9"\n')
    installed = metadata.version("pytest")
    with project_packages.importable(tmp_path):
        assert metadata.version("pytest") == installed


CLONES = """
    git clone https://github.com/me/project && cd project
    git clone --recursive -b v1 https://github.com/huggingface/alignment-handbook.git
    git clone git@github.com:me/other.git
"""


@pytest.mark.parametrize(
    ("module", "found"),
    [("alignment", "github.com/huggingface/alignment-handbook"), ("handbook", ""), ("other", ""), ("align", "")],
)
def test_a_repository_that_the_readme_clones_is_found_by_the_modules_name(
    tmp_path: Path, module: str, found: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(CLONES)
    (tmp_path / "examples" / "dpo").mkdir(parents=True)
    assert project_packages.cloned_repository(module, tmp_path / "examples" / "dpo") == found
    assert project_packages.cloned_repository(module, tmp_path.parent) == ""
