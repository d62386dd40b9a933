"""A yanked release: a range does not hold it, a pin installs it and says so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dsregress.envs import venv
from dsregress.envs.installer import Installer, yanked
from dsregress.envs.pip_config import PipConfig
from dsregress.errors import UsageError
from dsregress.versions.stack_plans import resolve
from tests.builders import tiny_packages
from tests.packages import wheelhouse

pytestmark = pytest.mark.slow  # environments are built

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    """One whose index has three releases, the second one yanked."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "1.1", "1.2"):
        tiny_packages.wheel(wheels, "mine", version)
    url = wheelhouse.simple_index(tmp_path / "index", wheels, {"mine-1.1-py3-none-any.whl": "broken wheels"})
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "PIP_INDEX_URL": url,
        "PIP_CONFIG_FILE": "/dev/null",
    }
    pip = PipConfig(index_url=url)
    return Installer(environment=environment, pip=pip)


def test_a_range_skips_it_and_a_spec_that_names_it_has_it(installer: Installer) -> None:
    published = installer.published
    assert resolve("mine", "1.*", published) == ("1.0", "1.2")
    assert resolve("mine", ">=1.0,<1.2", published) == ("1.0",)
    assert resolve("mine", "1.1", published) == ("1.1",)
    assert resolve("mine", "1.0,==1.1,latest", published) == ("1.0", "1.1", "1.2")
    with pytest.raises(UsageError, match="unknown release 9.9"):
        resolve("mine", "1.1,9.9", published)


def test_it_is_listed_with_the_reason_of_its_publisher(installer: Installer) -> None:
    assert installer.yanked_releases("mine") == {"1.1": "broken wheels"}


def test_a_pin_installs_it_and_every_run_says_so(tmp_path: Path, installer: Installer) -> None:
    locked = tiny_packages.locked(PYTHON, "mine==1.1")
    for _ in range(2):
        built = venv.build_venv(locked, folder=tmp_path / "work", installer=installer, gpu=False, framework="mine")
        assert built.failure is None
        assert built.notes == ("mine 1.1 is yanked by its publisher: broken wheels",)


def test_what_uv_says_of_it() -> None:
    assert yanked("warning: `mine==1.1` is yanked\n + mine==1.1\n") == ("mine 1.1 is yanked by its publisher",)
    assert yanked("Installed 1 package\n") == ()
