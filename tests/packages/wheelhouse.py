"""A folder that serves as the only package index: whatever an environment needs besides the framework, made again as
wheels from what is installed beside the running tests. So the whole job can be proved without a network."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import zipfile
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: What differs from one installation of the same wheel to the next, and is in none.
_OF_THE_INSTALLATION = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")


def fill(folder: Path, names: Iterable[str]) -> None:
    """Wheels of these distributions and of all that they require, on this Python or on another.

    What is required on other machines only (colorama on Windows) is not installed here and becomes an empty wheel: a
    resolution for all machines has to find it, nobody installs it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or "extra" in str(requirement.marker or ""):
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            _empty(folder, name, _fitting(requirement))
            continue
        _repack(folder, found)
        waiting += [Requirement(line) for line in found.requires or ()]


def simple_index(folder: Path, wheels: Path, yanked: Mapping[str, str]) -> str:
    """A simple index (PEP 503) of the wheels in a folder, by its URL. ``yanked``: file -> why it was (PEP 592)."""
    for file in sorted(wheels.glob("*.whl")):
        name = canonicalize_name(file.name.partition("-")[0])
        page = folder / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        mark = f' data-yanked="{yanked[file.name]}"' if file.name in yanked else ""
        with page.open("a", encoding="utf-8") as text:
            text.write(f'<a href="{file.as_uri()}"{mark}>{file.name}</a>\n')
    return folder.as_uri()


def _repack(folder: Path, found: Distribution) -> None:
    info = _info_folder(found)
    with zipfile.ZipFile(folder / f"{info.removesuffix('.dist-info')}-py3-none-any.whl", "w") as wheel:
        record = ""
        for path in found.files or ():
            if ".." in path.parts or path.is_absolute() or path.suffix == ".pyc":
                continue
            if path.parts[0] == info and path.name in _OF_THE_INSTALLATION:
                continue
            content = path.read_binary()
            wheel.writestr(_dated(path.as_posix()), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{path.as_posix()},sha256={digest},{len(content)}\n"
        wheel.writestr(_dated(f"{info}/RECORD"), f"{record}{info}/RECORD,,\n")


def _info_folder(found: Distribution) -> str:
    return next(path.parts[0] for path in found.files or () if path.parts[0].endswith(".dist-info"))


def _empty(folder: Path, name: str, version: str) -> None:
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(_dated(f"{info}/METADATA"), f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            _dated(f"{info}/WHEEL"), "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(_dated(f"{info}/RECORD"), f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def _fitting(requirement: Requirement) -> str:
    """A version that the requirement allows: one that it names itself, or a large one."""
    candidates = [specifier.version.removesuffix(".*") for specifier in requirement.specifier]
    return next(v for v in (*candidates, "9999") if requirement.specifier.contains(v, prereleases=True))


def _dated(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
