"""Tiny packages in a folder that serves as the only index: real installers, no network."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from dsregress.envs import apart
from dsregress.envs.installer import Installer
from dsregress.envs.pip_config import PipConfig
from dsregress.model import LockedStack, Stack

#: The code of a package that is too large to be copied for each environment.
LARGE = f"__version__ = '1.0'\n# {'x' * (apart.OWN_OTHER_BYTES + 1)}\n"


def imported_version(python: str, package: str) -> str:
    """The version that an interpreter finds in a package, which it compiles unless it has been compiled."""
    command = [python, "-c", f"import {package}; print({package}.__version__)"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout.strip()


def wheel(
    folder: Path,
    name: str,
    version: str,
    code: str = "",
    requires: tuple[str, ...] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """A wheel of one module, and of ``more`` files."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{name}/__init__.py": code or f"__version__ = {version!r}\n",
        **more,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tiny\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},sha256={_digest(text)},{len(text.encode())}\n" for file, text in files.items())
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(file, text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def source_with_its_own_backend(
    folder: Path, name: str, version: str, backend: str, requires: tuple[str, ...] = ()
) -> None:
    """A source distribution that brings its build backend along, so that building it needs nothing but ``requires``."""
    project = (
        f'[build-system]\nrequires = {list(requires)}\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
    )
    files = {"pyproject.toml": project, "backend.py": backend, "PKG-INFO": f"Name: {name}\nVersion: {version}\n"}
    with tarfile.open(folder / f"{name}-{version}.tar.gz", "w:gz") as archive:
        for file, text in files.items():
            member = tarfile.TarInfo(f"{name}-{version}/{file}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def installer(index: Path, cache: Path, **more: str) -> Installer:
    """One that knows no index but the folder, and shares nothing with the user's own caches."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(cache),
        "UV_CACHE_DIR": str(cache / "uv"),
        **more,
    }
    return Installer(environment=environment, pip=PipConfig(no_index=True, find_links=(str(index),)))


def locked(python: str, *requirements: str) -> LockedStack:
    """A lock of the package ``mine`` with these pins."""
    version = next((line.partition("==")[2] for line in requirements if line.startswith("mine==")), "0")
    sha256 = hashlib.sha256("\n".join(requirements).encode()).hexdigest()
    return LockedStack(stack=Stack(python=python, versions={"mine": version}), requirements=requirements, sha256=sha256)
