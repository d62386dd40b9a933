"""The project in whose folder the launch line is typed: what ``pip install -e .`` makes importable, as its README asks.

Its own packages and modules, in the folder or in ``src``, and its metadata are found after everything in the environment.
A folder without an ``__init__.py`` is a package if it has code, and is in ``src`` or named by the project's files: any
other, as ``datasets/``, would hide that a library is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from dsregress.programs.launch.own_metadata import own_distribution
from vgpu.loaded import loaded_modules

_SOURCES_OF_EXTENSIONS = (".pyx", ".c", ".cpp", ".cu", ".rs")
_FILES = ("pyproject.toml", "setup.py", "setup.cfg")

#: Files of a folder that are looked at for code.
_MOST_FILES = 2_000

_IN_AN_ENVIRONMENT = "site-packages"
#: Packages whose calls are watched: they stay those of the environment.
_WATCHED = frozenset(("torch", "transformers", "deepspeed", "accelerate", "numpy"))

#: A project's root lies in at most so many folders above that of the line, and its packages as many below its root.
_MOST_LEVELS = 4
_MOST_FOLDERS = 2_000
#: Repositories that a README has one clone: ``git clone https://github.com/huggingface/alignment-handbook.git``.
_CLONED = re.compile(
    r"\bgit clone (?:-\S+ (?:\S+ )??)*https?://(github\.com/[\w.-]+/([\w.-]+?))(?:\.git)?/?(?=[\s`)]|$)"
)
_MOST_READMES, _MOST_READ = 4, 1_000_000
#: Folders whose code no program imports as its own.
_OTHERS = frozenset(("node_modules", "site-packages", "build", "dist", "venv", "tests", "test", "docs"))


def package_folders(folder: Path) -> list[str]:
    """Return the folders of the packages of the project in ``folder``; empty if there is no project."""
    if not any((folder / name).is_file() for name in _FILES):
        return []
    return [str(each) for each in (folder, folder / "src") if each.is_dir()]


def is_compiled(folder: str) -> bool:
    """Return True if a package's folder has sources of an extension."""
    return any(name.endswith(_SOURCES_OF_EXTENSIONS) for name in os.listdir(folder))


def has_code(folder: str) -> bool:
    """Return True if Python files are in a folder or below it."""
    files = itertools.chain.from_iterable(files for _, _, files in os.walk(folder))
    return any(name.endswith(".py") for name in itertools.islice(files, _MOST_FILES))


def folder_with_module(module: str, folder: Path) -> str | None:
    """Return the folder, relative to ``folder``, in which the project around it has a module: the nearest above ``folder``
    or its ``src``, one with an ``__init__.py`` before others, else the only other one of the project. None if no folder, or
    several have it."""
    above = [folder, *folder.parents[:_MOST_LEVELS]]
    roots = [at for at, one in enumerate(above) if (one / ".git").exists()]
    roots = roots or [at for at, one in enumerate(above) if package_folders(one)]
    if not roots or (root := above[roots[0]]) in (Path.home(), *Path.home().parents):
        return None
    nearest = [place for one in above[1 : roots[0] + 1] for place in (one, one / "src")]
    found = next((place for place in nearest if _has_module(place, module, regular=True)), None)
    found = found or next((place for place in nearest if _has_module(place, module)), None)
    if found is None:
        others = [place for place in _folders_below(root) if _has_module(place, module, regular=True)]
        found = others[0] if len(others) == 1 else None
    return None if found is None else os.path.relpath(found, folder)


def cloned_repository(module: str, folder: Path) -> str:
    """Return the repository ``github.com/owner/name`` that a README in ``folder``, or above it in its project, tells
    one to clone and that is called after a module, as ``alignment-handbook`` for ``alignment``; empty if none does."""
    for place in (folder, *folder.parents[:_MOST_LEVELS]):
        for readme in sorted(place.glob("README*"))[:_MOST_READMES]:
            with contextlib.suppress(OSError), open(readme, encoding="utf-8", errors="replace") as file:
                for address, name in _CLONED.findall(file.read(_MOST_READ)):
                    words = name.lower().replace("-", "_")
                    if words == module.lower() or words.startswith(f"{module.lower()}_"):
                        return str(address)
        if (place / ".git").exists():
            break
    return ""


def _has_module(folder: Path, module: str, *, regular: bool = False) -> bool:
    """Return True if a folder has a module or package; only one with an ``__init__.py`` if ``regular``."""
    package = folder / module
    if (folder / f"{module}.py").is_file() or (package / "__init__.py").is_file():
        return True
    return not regular and has_code(str(package))


def _folders_below(root: Path) -> Iterator[Path]:
    """Yield the folders of a project that are no packages, down to some levels."""
    for seen, (at, folders, files) in enumerate(os.walk(root)):
        depth = len(Path(at).relative_to(root).parts)
        inside = "__init__.py" in files or depth == _MOST_LEVELS
        folders[:] = [] if inside else sorted(name for name in folders if name[0] not in "._" and name not in _OTHERS)
        if seen > _MOST_FOLDERS:
            return
        yield Path(at)


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Make the packages of the project in ``folder``, if there is one, importable within the block."""
    finder = _OwnPackages(folder, package_folders(folder))
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextlib.contextmanager
def found_before_the_environment(folders: Sequence[str]) -> Iterator[None]:
    """Forget within the block those of the environment's modules that were loaded before the program began, and that
    packages of its own in ``folders``, which Python searches first, hide."""
    loaded = [
        (name, module) for name, module, held in loaded_modules() if _IN_AN_ENVIRONMENT in str(held.get("__file__"))
    ]
    tops = {name.partition(".")[0] for name, _ in loaded} - _WATCHED
    own = {top for top in tops if any(_has_module(Path(folder), top, regular=True) for folder in folders)}
    hidden = {name: module for name, module in loaded if name.partition(".")[0] in own}
    for name in hidden:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(hidden)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class _OwnPackages:
    """A finder of ``sys.meta_path``."""

    def __init__(self, project: Path, folders: list[str]) -> None:
        self._project = project
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None:  # a part of a package, which is found by the package
            return None
        spec = PathFinder.find_spec(name, self._folders, target)
        if spec is None or spec.origin is not None:
            return spec
        folders = [folder for folder in spec.submodule_search_locations or () if self._is_package(folder)]
        if not folders:
            return None
        namespace = ModuleSpec(name, None, is_package=True)
        namespace.submodule_search_locations = folders
        return namespace

    def find_distributions(self, context: metadata.DistributionFinder.Context) -> Iterator[metadata.Distribution]:
        """Yield the project itself, if its metadata are looked for: the environment's come first."""
        own = own_distribution(self._project, _FILES) if self._folders else None
        if own is not None and (context.name is None or _canonical(context.name) == _canonical(own.name)):
            yield own

    def _is_package(self, folder: str) -> bool:
        """Return True if a folder without ``__init__.py`` is one of the project's packages."""
        where, name = os.path.split(folder)
        return has_code(folder) and (os.path.basename(where) == "src" or name in self._named_packages())

    def _named_packages(self) -> set[str]:
        """Return the words in the project's files: they name its packages."""
        files = [self._project / name for name in _FILES]
        texts = [file.read_text("utf-8", "replace") for file in files if file.is_file()]
        return {word for text in texts for word in re.findall(r"\w+", text)}
