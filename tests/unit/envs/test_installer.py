"""What is said of an installer that cannot be started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dsregress.envs.installer import Installer
from dsregress.envs.pip_config import PipConfig
from dsregress.errors import EnvironmentUnavailable


def program(folder: Path, name: str) -> str:
    """An executable whose interpreter has gone."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/does/not/exist\n")
    file.chmod(0o755)
    return str(file)


def test_a_uv_that_cannot_be_started_is_installed_again(tmp_path: Path) -> None:
    installer = Installer(environment={}, pip=PipConfig(), uv=program(tmp_path, "uv"))
    with pytest.raises(EnvironmentUnavailable) as refused:
        installer.create(tmp_path / "environment", "3.99")
    assert refused.value.hint == "install it again (pip install uv)"


def test_a_machine_without_uv_is_said_to_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    installer = Installer(environment={"PATH": str(tmp_path)}, pip=PipConfig())
    with pytest.raises(EnvironmentUnavailable) as refused:
        installer.create(tmp_path / "environment", "3.99")
    assert str(refused.value) == "uv: cannot be started: No such file or directory; install it again (pip install uv)"


#: As uv where a source's setup imports pkg_resources, with the setuptools that its constraint leaves.
BUILDS = """#!/bin/sh
echo "$@" >> calls
case $UV_BUILD_CONSTRAINT in
*build_constraints.txt) grep -q '^setuptools<81$' "$UV_BUILD_CONSTRAINT" && exit 0 ;;
esac
echo "ModuleNotFoundError: No module named 'pkg_resources'" >&2
exit 1
"""


def test_a_source_whose_setup_needs_pkg_resources_is_built_with_a_setuptools_that_has_it(tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.write_text(BUILDS)
    uv.chmod(0o755)
    installer = Installer(environment={"PATH": "/usr/bin:/bin"}, pip=PipConfig(), uv=str(uv))
    assert installer.run_uv("pip", "sync").returncode == 0
    own = Installer(environment={"UV_BUILD_CONSTRAINT": "own.txt"}, pip=PipConfig(), uv=str(uv))
    assert own.run_uv("pip", "sync").returncode == 1  # the user's own constraint stays
