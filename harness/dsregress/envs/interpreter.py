"""Describes an existing interpreter from within. Standard library only, and no import of ours: that interpreter runs this
file as text (``python -c``), with the path of `dsregress.envs.inside` and the names of the packages whose code is measured.
None of those packages is imported."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlparse

#: Written by installers into site-packages, with the path of the source in it.
_EDITABLE = "__editable__"


def description(inside: ModuleType, measured: list[str]) -> dict[str, object]:
    """Return the version of Python, distribution -> version, their requirements on the ``measured`` packages, and hashes:
    ``wheels`` of the files that all wheels have installed, by their own records, and ``code`` of the present Python files of
    the ``measured`` packages and of all that is installed from a source folder (``pip install -e``).

    Both are the same wherever the same wheels are installed. For a distribution without a record (Debian's) the version
    counts.
    """
    found = _distributions(inside)
    wanted = {inside.normal(name) for name in measured}
    wheels, code = hashlib.sha256(), hashlib.sha256()
    for name, dist in sorted(found.items()):
        record = _wheel_record(inside, dist)
        wheels.update(f"{name}=={dist.version} {inside._of_record(record)}\n".encode())
        source = _editable_source(dist)
        if source is not None:
            files = _of_source(inside.normal(name), source)
        elif inside.normal(name) in wanted:
            files = ((file, _installation_folder(dist) / file) for file in record if file.endswith(".py"))
        else:
            continue
        for file, path in files:
            with contextlib.suppress(OSError):
                code.update(f"{name}\0{file}\0{hashlib.sha256(inside._content(path)).hexdigest()}\n".encode())
    return {
        "python": list(sys.version_info[:2]),
        "prefix": sys.prefix,
        "installed": {name: dist.version for name, dist in sorted(found.items())},
        "demands": inside.demands(found.values(), measured),
        "wheels": wheels.hexdigest(),
        "code": code.hexdigest(),
    }


def _distributions(inside: ModuleType) -> dict[str, Distribution]:
    """Return the distributions by name; of several with one name, the one that is imported."""
    found: dict[str, Distribution] = {}
    for dist in importlib.metadata.distributions():
        pair = inside._name_and_version(dist)
        if pair is not None and pair[1]:
            found.setdefault(pair[0], dist)
    return found


def _installation_folder(dist: Distribution) -> Path:
    """Return the folder that a distribution is installed into."""
    return Path(str(dist.locate_file("")))


def _wheel_record(inside: ModuleType, dist: Distribution) -> dict[str, str]:
    info = getattr(dist, "_path", None)
    if info is None or not str(info).endswith(".dist-info"):
        return {}
    record: dict[str, str] = inside._installed_files(Path(str(info)))
    return {file: recorded for file, recorded in record.items() if not file.startswith(_EDITABLE)}


def _editable_source(dist: Distribution) -> Path | None:
    """Return the folder of an editable installation's source; None for all other distributions."""
    try:
        origin = json.loads(dist.read_text("direct_url.json") or "{}")
        if origin.get("dir_info", {}).get("editable"):
            return Path(unquote(urlparse(origin["url"]).path))
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    return None


def _of_source(module: str, source: Path) -> Iterator[tuple[str, Path]]:
    """Yield the Python files of a package in its source folder, by their path in it."""
    root = source
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(module)  # of a top-level package, which is not imported by that
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        root = Path(places[0]) if places else source
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for file in sorted(files):
            if file.endswith(".py"):
                path = Path(folder, file)
                yield path.relative_to(root).as_posix(), path


def _load_inside(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("dsregress_inside", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    answer = json.dumps(description(_load_inside(sys.argv[1]), sys.argv[2:]))
    sys.stdout.write("\n" + answer + "\n")  # on a line of its own: site-packages may have printed
