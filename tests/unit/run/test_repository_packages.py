"""The packages that a repository pins, declares, or only uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.run.project_requirements import name_of_project
from dsregress.run.repository_packages import packages_in
from dsregress.versions.releases import known_releases

USUAL = {"torch": "2.13.0", "transformers": "5.24.0"}


def test_a_lock_goes_before_requirements_that_add_nothing(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "torch"\nversion = "2.9.1"\n')
    (tmp_path / "requirements.txt").write_text("torch==2.9.1\n")
    found = packages_in(tmp_path, tmp_path, ["torch"], USUAL)
    assert (found.files, found.pins) == (("uv.lock",), ())


def test_a_file_that_pins_nothing_of_a_stack_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torchvision==0.4.0\nmatplotlib\n")
    found = packages_in(tmp_path, tmp_path, ["torch", "deepspeed"], USUAL)
    assert found.files == ()
    assert found.pins == ("torch==2.13.0", f"deepspeed=={known_releases('deepspeed')[-1]}")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["transformers>=4.50,<4.52", "torch>=2.6"]\n'),
        ("pyproject.toml", '[project.optional-dependencies]\ntrain = ["transformers>=4.50,<4.52", "torch"]\n'),
        ("setup.py", 'setup(install_requires=["transformers>=4.50,<4.52", "torch>=2.6.0"])\n'),
        ("requirements.txt", "transformers>=4.50,<4.52\ntorch\n"),
    ],
)
def test_a_range_comes_to_the_usual_release_else_the_newest_that_it_allows(
    file: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    newest = [one for one in known_releases("transformers") if one.startswith(("4.50.", "4.51."))][-1]
    assert packages_in(tmp_path, tmp_path, [], USUAL).pins == ("torch==2.13.0", f"transformers=={newest}")


def test_the_folder_of_the_job_goes_before_the_repository(tmp_path: Path) -> None:
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "requirements.txt").write_text("torch==2.9.1\n")
    (tmp_path / "requirements.txt").write_text("torch==2.8.0\npeft==0.19.1\n")
    found = packages_in(tmp_path, folder, [], USUAL)
    assert found.files == ("training/requirements.txt", "requirements.txt")


def test_a_checkout_in_requirements_is_any_release(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("git+https://github.com/huggingface/transformers\n")
    assert packages_in(tmp_path, tmp_path, [], USUAL).pins == ("transformers==5.24.0",)


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("pyproject.toml", '[project]\nname = "TRL"\n', "trl"),
        ("setup.py", 'setup(\n    name="deepspeed",\n)', "deepspeed"),
        ("setup.cfg", "[metadata]\nname = my_package\n", "my-package"),
        ("README.md", "name = nothing", ""),
    ],
)
def test_a_project_has_the_name_that_it_builds(file: str, text: str, name: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(text)
    assert name_of_project(tmp_path) == name
