"""What is said of an installer that cannot be started."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.envs.installer import Installer
from harness.envs.pip_config import PipConfig
from harness.errors import EnvironmentUnavailable


def program(folder: Path, name: str) -> str:
    """An executable whose interpreter has gone."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/does/not/exist\n")
    file.chmod(0o755)
    return str(file)


def test_a_python_that_cannot_be_started_is_no_reason_to_install_uv(tmp_path: Path) -> None:
    python = program(tmp_path / "bin", "python3.99")
    installer = Installer(environment={"PATH": str(tmp_path / "bin")}, pip=PipConfig(), uv="")
    with pytest.raises(EnvironmentUnavailable) as refused:
        installer.create(tmp_path / "environment", "3.99")
    assert refused.value.hint == f"see whether it works: {python} --version"


def test_a_uv_that_cannot_be_started_is_installed_again(tmp_path: Path) -> None:
    installer = Installer(environment={}, pip=PipConfig(), uv=program(tmp_path, "uv"))
    with pytest.raises(EnvironmentUnavailable) as refused:
        installer.create(tmp_path / "environment", "3.99")
    assert refused.value.hint == "install it again (pip install uv)"
