"""The tests of measured code inside environments of real releases, where its tests that need torch and DeepSpeed run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.functional.releases import AFTER, BEFORE, FAULTY, assert_passes
from tests.paths import ROOT

#: The newest release with a committed lock.
NEWEST = "0.19.8"


#: Beside the default, where transformers has crashes that are shown in both modes.
TRANSFORMERS_4 = ("--stack", "transformers-4")

#: Folders and files that take minutes each; the rest takes seconds a folder. Each is run by itself, on any worker.
LONG = (
    "tests/probe/frameworks",
    "tests/probe/oracles",
    "tests/programs/launch",
    "tests/programs/substitutes",
    *(f"tests/programs/truth/{file.name}" for file in sorted((ROOT / "tests/programs/truth").glob("test_*.py"))),
    "tests/programs/watch",
    "tests/programs/world",
    "tests/vgpu/sim",
)

#: Of all that is left to the night, in seconds: many times what it takes on two quiet cores.
LIMIT_OF_ALL_S = 7200.0

#: The folders of all else; pytest ignores `--ignore` for a folder that it is given.
ALL_ELSE = ("tests/probe", "tests/programs", "tests/vgpu", "tests/skeletons")

#: Takes a minute, needs nothing of an environment, and runs outside of it.
NEEDS_NO_ENVIRONMENT = "tests/skeletons/test_files.py"


@pytest.mark.parametrize("part", LONG)
def test_a_part_of_it_in_the_release_that_has_the_fault(python_of: Callable[..., str], part: str) -> None:
    assert_passes(python_of(FAULTY), part, "-m", "not nightly")


@pytest.mark.nightly
@pytest.mark.timeout(LIMIT_OF_ALL_S)
def test_what_they_leave_to_the_night_in_the_release_that_has_the_fault(python_of: Callable[..., str]) -> None:
    assert_passes(python_of(FAULTY), *ALL_ELSE, "-m", "nightly", limit_s=LIMIT_OF_ALL_S)


@pytest.mark.nightly
def test_trainers_fail_in_both_modes_alike_with_transformers_4_too(python_of: Callable[..., str]) -> None:
    assert_passes(python_of(FAULTY, *TRANSFORMERS_4), "tests/programs/watch/test_trainers.py")


def test_all_else_in_the_release_that_has_the_fault(python_of: Callable[..., str]) -> None:
    rest = [f"--ignore={path}" for path in (*LONG, NEEDS_NO_ENVIRONMENT)]
    assert_passes(python_of(FAULTY), *ALL_ELSE, *rest, "-m", "not nightly")


#: What programs use and no environment of the configuration has, and the tests that need it.
PACKAGES = ("datasets", "diffusers", "pillow", "tiktoken")
NEED_PACKAGES = (
    "tests/programs/substitutes/test_synthetic_datasets.py",
    "tests/programs/substitutes/test_synthetic_encodings.py",
    "tests/programs/substitutes/test_synthetic_images.py",
    "tests/programs/substitutes/test_more_columns.py",
    "tests/skeletons/test_pipelines.py",
)


def test_what_needs_packages_of_programs_in_an_environment_that_has_them(python_of: Callable[..., str]) -> None:
    added = [word for package in PACKAGES for word in ("--with", package)]
    said = assert_passes(python_of(FAULTY, "--deepspeed", FAULTY, *added), *NEED_PACKAGES)
    assert " skipped" not in said


@pytest.mark.nightly
@pytest.mark.parametrize("version", [BEFORE, AFTER, NEWEST])
def test_simulations_of_other_releases_are_equal_to_real_tensors_too(
    python_of: Callable[[str], str], version: str
) -> None:
    """Every ZeRO stage, both models, offload, models built on the host; all declared variants take minutes each, and the
    release above walks those."""
    assert_passes(python_of(version), "tests/vgpu/sim/test_exact.py", "-k", "the_ways_of_training")
