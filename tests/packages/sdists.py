"""A git repository made of a package's published source distributions, where its own history cannot be reached.

    python -m tests.packages.sdists FOLDER deepspeed 0.15.3 0.15.4 0.16.0
    python -m tests.packages.sdists FOLDER deepspeed 0.15.4 0.16.0 --split

One commit per release, named ``0.15.4 from its sdist`` and tagged ``v0.15.4``. With ``--split`` each release is reached
in small steps from the one before it: a commit for each place of a Python file that changed, and for each other file.
These commits are ours, not upstream's: what they tell is which of the release's changes is meant.

What a build wrote into the distribution is left out, as upstream's repository does not have it either, and folders that
setuptools copied there because they are links upstream are links again.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import filecmp
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from dsregress.envs.repository import extract
from tests.packages.history import git

_GENERATED = ("PKG-INFO", "*.egg-info", "build.txt", "deepspeed/git_version_info_installed.py")
_LINKS = {
    "deepspeed/accelerator": "../accelerator",
    "deepspeed/ops/csrc": "../../csrc",
    "deepspeed/ops/op_builder": "../../op_builder",
}

#: Files of a source tree by their path in it; None: not there.
Files = dict[str, bytes | None]


def fetch(package: str, version: str, folder: Path) -> Path:
    """The source distribution of a release, by pip. Raises CalledProcessError where no index has it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (there := list(folder.glob(f"{package}-{version}.tar.gz"))):
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", package, "--dest", str(folder), f"{package}=={version}"]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        there = list(folder.glob(f"{package}-{version}.tar.gz"))
    return there[0]


def make(folder: Path, sdists: Sequence[Path], *, split: bool = False) -> list[str]:
    """Write the repository of some releases, oldest first; returns the subjects of its commits."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    subjects: list[str] = []
    for sdist in sdists:
        version = sdist.name.removesuffix(".tar.gz").rpartition("-")[2]
        with tempfile.TemporaryDirectory(prefix="sdist-") as scratch:
            tree, released = _unpack(sdist, Path(scratch))
            if split and subjects:
                for subject, change in _steps(folder, tree):
                    _write(folder, change, tree)
                    _commit(folder, subject, released)
                    subjects.append(subject)
            _replace(folder, tree)
        if not split or len(subjects) == 0:
            subjects.append(f"{version} from its sdist")
            _commit(folder, subjects[-1], released)
        elif left := git(folder, "status", "--porcelain"):
            raise RuntimeError(f"the steps do not lead to {version}: {left}")
        git(folder, "tag", f"v{version}")
    return subjects


def _unpack(sdist: Path, scratch: Path) -> tuple[Path, str]:
    """The tree as upstream's repository has it, and when it was made."""
    with tarfile.open(sdist) as archive:
        newest = max(member.mtime for member in archive.getmembers())
        extract(archive, scratch)
    (tree,) = scratch.iterdir()
    for pattern in _GENERATED:
        for path in tree.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, target in _LINKS.items():
        copy = tree / name
        if _are_one(copy, copy.parent / target):
            # Each may hold files that the other lacks: the distribution's manifest thinned out both, by rules of their own.
            shutil.copytree(copy, copy.parent / target, dirs_exist_ok=True)
            shutil.rmtree(copy)
            copy.symlink_to(target)
    return tree, datetime.fromtimestamp(newest, tz=timezone.utc).isoformat()


def _are_one(copy: Path, original: Path) -> bool:
    """Whether folders have files in common, none of which differs."""
    files = [path.relative_to(copy) for path in copy.rglob("*") if path.is_file()]
    same, different, _ = filecmp.cmpfiles(copy, original, files, shallow=False)
    return bool(same) and not different


def _replace(folder: Path, tree: Path) -> None:
    for path in folder.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    # With new times: git would take a file of the same size and the time that the distribution gives it for the old one.
    shutil.copytree(tree, folder, symlinks=True, dirs_exist_ok=True, copy_function=shutil.copy)


def _commit(folder: Path, subject: str, at: str) -> None:
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", subject, at=at)


def _write(folder: Path, change: Files, released: Path) -> None:
    """With the modes that the files have in the released tree."""
    for name, content in change.items():
        path = folder / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            shutil.copymode(released / name, path)


# --- a release in small steps -----------------------------------------------------------------------------------------


def _steps(old: Path, new: Path) -> Iterator[tuple[str, Files]]:
    """Subject and change of each step from one tree to another: what no Python imports first, then what others import
    before those others, so that as many steps as possible can be imported."""
    before, after = _read(old), _read(new)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    python = [name for name in changed if name.endswith(".py")]
    for name in (*(name for name in changed if name not in python), *_imported_first(python, after)):
        mine, theirs = before.get(name), after.get(name)
        if name not in python or mine is None or theirs is None:
            yield f"{name}: {'new' if mine is None else 'gone' if theirs is None else 'changed'}", {name: theirs}
            continue
        texts = list(_places(mine.decode(), theirs.decode()))
        for number, (where, text) in enumerate(texts, 1):
            yield f"{name}: {where} ({number} of {len(texts)})", {name: text.encode()}


def _read(tree: Path) -> Files:
    """Links are left to the copy of the whole tree, as no release changes them."""
    paths = (path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    names = {path.relative_to(tree).as_posix(): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(".git/")}


def _places(old: str, new: str) -> Iterator[tuple[str, str]]:
    """The text after each place that changed, from the top; with the next ones as long as it is no Python."""
    a, b = old.splitlines(keepends=True), new.splitlines(keepends=True)
    codes = [code for code in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes() if code[0] != "equal"]
    pending: list[str] = []
    for _, _, a_end, b_start, b_end in codes:
        where = _enclosing(new, b_start + 1, max(b_end, b_start + 1))
        pending += [where] if where not in pending else []
        text = "".join(b[:b_end] + a[a_end:])
        try:
            ast.parse(text)
        except SyntaxError:
            continue
        yield ", ".join(pending), text
        pending = []


def _enclosing(text: str, first: int, last: int) -> str:
    """The innermost function or class around some lines, or those that begin in them."""
    nodes = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    around = [node for node in nodes if node.lineno <= first and last <= (node.end_lineno or 0)]
    if around:
        return min(around, key=lambda node: (node.end_lineno or 0) - node.lineno).name
    within = [node.name for node in nodes if first <= node.lineno <= last]
    return ", ".join(within) or "its top level"


def _imported_first(names: Sequence[str], after: Files) -> list[str]:
    """Python files in such an order that what another one imports comes before it, as far as there is one."""
    by_module = {name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
                 for name in names}  # fmt: skip
    order: dict[str, None] = {}
    entered: set[str] = set()

    def visit(module: str) -> None:
        if module in entered:
            return
        entered.add(module)
        for other in _imports(module, by_module[module], after):
            if other in by_module:
                visit(other)
        order[by_module[module]] = None

    for module in sorted(by_module):
        visit(module)
    return list(order)


def _imports(module: str, name: str, after: Files) -> Iterator[str]:
    """What a file imports, by the name of the module that it may be."""
    package = module if name.endswith("/__init__.py") else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(after.get(name) or b"")):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join((*up, *([node.module] if node.module else [])))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the repository to be made")
    parser.add_argument("package", help="deepspeed, transformers, ...")
    parser.add_argument("versions", nargs="+", help="releases, oldest first")
    parser.add_argument("--split", action="store_true", help="small steps between neighbours")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sdists-") as scratch:
        sdists = [fetch(given.package, version, Path(scratch)) for version in given.versions]
        for subject in make(given.folder.resolve(), sdists, split=given.split):
            sys.stdout.write(f"{subject}\n")


if __name__ == "__main__":
    main()
