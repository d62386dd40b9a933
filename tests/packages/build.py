"""Builds tinyframe's releases as wheels, with nothing but the standard library."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

#: version -> what it gets wrong
RELEASES = {
    "1.0.0": "good",
    "1.1.0": "hungry",
    "1.2.0": "wrong",
    "1.3.0": "crashing",
    "1.4.0": "not-importing",
    "1.5.0": "hanging",
    "1.6.0": "dying",
    "1.7.0": "out-of-memory",
    "1.8.0": "busy",
    "1.9.0": "new-default",
    "2.0.0": "good",
}

#: Releases of a trainer on top of it, which no stack is configured with.
TRAINERS = {"1.0.0": "good", "1.1.0": "good", "1.2.0": "hungry", "1.3.0": "hungry"}

_SOURCE = Path(__file__).parent / "tinyframe"


def build_all(folder: Path) -> None:
    """Write ``tinyframe-VERSION-py3-none-any.whl`` for every release into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for version, behaviour in RELEASES.items():
        build(folder, version, behaviour)


def build(folder: Path, version: str, behaviour: str = "good", more: str = "") -> None:
    """Write one release, with ``more`` code at the end of its package."""
    info = f"tinyframe-{version}.dist-info"
    files = {f"tinyframe/{path.name}": path.read_text() for path in sorted(_SOURCE.glob("*.py"))}
    files["tinyframe/__init__.py"] += more
    files["tinyframe/_release.py"] = f'BEHAVIOUR = "{behaviour}"\n'
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: tinyframe\nVersion: {version}\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{name},sha256={_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"tinyframe-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
