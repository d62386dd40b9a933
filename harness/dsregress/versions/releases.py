"""The releases that are known offline: committed data, refreshed by ``nox -s update_pins``."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path

from packaging.version import Version

FILE = Path(__file__).with_name("releases.json")

#: The oldest release of each package that is kept in the data.
OLDEST = {"deepspeed": "0.14.0", "torch": "2.4.0", "transformers": "4.42.0", "accelerate": "0.30.0", "peft": "0.11.0"}


@functools.cache
def _data() -> dict[str, list[str]]:
    data: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return data


def known_releases(package: str) -> tuple[str, ...]:
    """Return the committed releases of a package, the oldest first; empty for a package that is not in the data."""
    return tuple(_data().get(package, ()))


def is_too_old(package: str, version: str) -> bool:
    """Return True if a release came before all that can be measured; False if either is unknown."""
    parsed, oldest = parsed_version(version), parsed_version(OLDEST.get(package, ""))
    return parsed is not None and oldest is not None and parsed < oldest


def parsed_version(text: str) -> Version | None:
    """Return the parsed version; None if the text is not one, such as a commit or a branch."""
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return None


def sorted_versions(versions: Iterable[str]) -> tuple[str, ...]:
    """Return the versions, the oldest first, each once, without texts that are no version and builds of one
    (``2.13.0+cpu``)."""
    parsed: dict[Version, str] = {}
    for text in versions:
        version = parsed_version(text)
        if version is not None and version.local is None:
            parsed.setdefault(version, text)
    return tuple(parsed[version] for version in sorted(parsed))


def write_releases(found: dict[str, tuple[str, ...]]) -> None:
    """Replace the data: final releases from `OLDEST` on."""
    data = {
        package: [
            text
            for text in sorted_versions(versions)
            if not Version(text).is_prerelease and Version(text) >= Version(OLDEST.get(package, "0"))
        ]
        for package, versions in sorted(found.items())
    }
    lines = ",\n".join(f"  {json.dumps(package)}: {json.dumps(versions)}" for package, versions in data.items())
    FILE.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    _data.cache_clear()
