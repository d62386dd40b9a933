"""Makes packages of kernels importable that are not installed: their stand-ins, with metadata as of a release."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vgpu import no_stand_in
from vgpu.loaded import loaded_modules

#: The ``__file__`` of stand-ins: Python's message has it if a program imports something that a stand-in lacks.
PLACE = "the harness's stand-in: see 'Kernels that are not here' in docs/programs.md"


@dataclasses.dataclass(frozen=True)
class Package:
    """A package and the release that its stand-in resembles. ``modules``: by full name, the modules of the harness whose
    public names it has."""

    name: str
    distribution: str
    version: str
    modules: Mapping[str, tuple[str, ...]]


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads stand-ins. It comes last on the path, so that installed packages are found first."""

    def __init__(self, packages: Sequence[Package]) -> None:
        self._packages = tuple(packages)
        self._modules = {name: (package, sources) for package in packages for name, sources in package.modules.items()}

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._modules:
            return None
        is_package = any(name.startswith(fullname + ".") for name in self._modules)
        return importlib.machinery.ModuleSpec(fullname, self, origin=PLACE, is_package=is_package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        package, sources = self._modules[module.__name__]
        module.__file__ = PLACE
        for source in sources:
            mine = importlib.import_module(f"{__package__}.{source}")
            for name in mine.__all__:
                setattr(module, name, getattr(mine, name))
        if module.__name__ == package.name:
            module.__dict__["__version__"] = package.version
        for name in self._modules:
            parent, _, child = name.rpartition(".")
            if parent == module.__name__:
                setattr(module, child, importlib.import_module(name))

        module.__dict__.setdefault("__getattr__", no_stand_in.lacking(module.__name__))

    def find_distributions(
        self,
        context: importlib.metadata.DistributionFinder.Context = importlib.metadata.DistributionFinder.Context(),  # noqa: B008
    ) -> Iterator[importlib.metadata.Distribution]:
        for package in self._packages:
            if context.name is None or _normalized(context.name) == _normalized(package.distribution):
                yield _Distribution(package)

    def invalidate_caches(self) -> None:
        pass


class _Distribution(importlib.metadata.Distribution):
    def __init__(self, package: Package) -> None:
        self._files = {
            "METADATA": f"Metadata-Version: 2.1\nName: {package.distribution}\nVersion: {package.version}\n",
            "top_level.txt": f"{package.name}\n",
        }

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(path)


def _not_imported(error: BaseException) -> str:
    """Return the module or name that a program imports from a stand-in that lacks it; empty for another error. Python raises
    an ImportError for both."""
    if not isinstance(error, ImportError) or not error.name:
        return ""
    top = sys.modules.get(error.name.partition(".")[0])
    if getattr(top, "__file__", None) != PLACE:
        return ""
    name = _NAME.search(str(error))
    return f"{error.name}.{name[1]}" if name is not None else error.name


#: ``cannot import name 'flash_attn_kvpacked' from 'flash_attn'``
_NAME = re.compile(r"^cannot import name '(\w+)'")


def _normalized(name: str) -> str:
    return name.lower().replace("_", "-")


@contextlib.contextmanager
def found(packages: Sequence[Package]) -> Iterator[tuple[Package, ...]]:
    """Provide stand-ins for those of the packages that are not installed within the block, and yield them."""
    missing = tuple(package for package in packages if importlib.util.find_spec(package.name) is None)
    with found_beside(missing):
        yield missing


@contextlib.contextmanager
def found_beside(packages: Sequence[Package]) -> Iterator[None]:
    """Provide the modules of these packages within the block, beside those that are installed."""
    finder = Finder(packages)
    sys.meta_path.append(finder)
    try:
        with no_stand_in.refused(_not_imported):
            yield
    finally:
        sys.meta_path.remove(finder)
        for name, _, names in loaded_modules():
            if names.get("__file__") == PLACE:
                del sys.modules[name]
