"""The requirements that a program's project declares, in its folder and those above it up to its repository's:
``requirements*.txt``, ``requirements/*.txt``, ``pyproject.toml``, ``setup.py``, ``setup.cfg``, conda's ``environment.yml``
or ``requirements.yaml``, the locks of uv and poetry; the lines ``pip install ...`` of its README and install scripts; and
what else a README states (`readme_requirements`)."""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dsregress.config.toml_text import parsed_toml, table_of
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.module_packages import module_named
from dsregress.run.readme_requirements import stated_requirements
from dsregress.versions.install_lines import requirements_of_call
from dsregress.versions.pasted_versions import CONDA_NAMES
from dsregress.versions.poetry_requirements import poetry_requirements

#: A project's file lies in the folder of the program, or in at most so many above it.
_MOST_ABOVE = 4

_MOST_FILES = 20

#: Files of what does not train: read last.
_OF_ANOTHER_USE = re.compile("eval|test|dev|doc|demo|bench|lint")

#: Names in a ``setup.py`` of lists of requirements: ``install_requires``, ``_deps``.
_OF_REQUIREMENTS = re.compile(r"requir|deps\b|depend", re.IGNORECASE)

#: How the names of a conda environment's files begin.
_OF_CONDA = ("env", "requirements", "conda")

#: Conda's names of what no index of Python's has under them.
_OF_CONDA_ALONE = re.compile(
    r"(?:python|pip|pytorch-(?:cuda|mutex)|cud[\w-]*|lib(?:gcc|stdcxx)[\w-]*|git|gxx[\w-]*)(?![\w-])"
)

#: An entry of conda's or pip's in an ``environment.yml``.
_ENTRY = re.compile(r"^\s*-\s+(?:[\w-]+::)?([A-Za-z][\w.-]*(?:\[[\w,-]+\])?\s*[=<>~!].*?)\s*(?:#.*)?$", re.MULTILINE)

#: ``pytorch=2.2.2=py3.10_cuda12.1_cudnn8.9.2_0`` of conda: a name, a release or the beginning of one, and a build.
_OF_ONE_SIGN = re.compile(r"([\w.-]+)\s*=\s*(\d[^=\s]*)(?:=\S*)?")

#: Files that say how a project is installed, with lines as one types them.
_OF_INSTALLING = ("README*", "INSTALL*", "[Gg]et*[Ss]tarted*.md", "install*.sh", "setup*.sh", "Dockerfile*")

#: ``$ pip install trl==0.9.6 "peft>=0.10" && ...``
PIP_LINE = re.compile(r"\b(?:uv )?pip3? install[ \t]+([^\n;&|`#]+)")

#: ``transformers @ git+https://github.com/owner/transformers@branch#egg=transformers``, of which the address may be alone.
_OF_GIT = re.compile(r"(?:([\w.-]+)(?:\[[\w,]*\])?\s*@\s*)?git\+\w+://([^\s#'\",;)]+)(#[^\s'\",;)]*)?")

#: ``transformers = { git = "https://github.com/owner/transformers" }`` of poetry and uv.
_OF_TOML = re.compile(r"""^\s*["']?([\w.-]+)["']?\s*=\s*\{[^}\n]*\bgit\s*=\s*["']([^"']+)["']""", re.MULTILINE)

#: ``pip install -e ".[train]"``, ``uv sync --extra train``.
_OF_EXTRAS = re.compile(r"(?:\.\[|--extra[= ])([\w, -]+?)(?:\]|\s|$)")


class DeclaredRequirement(NamedTuple):
    """A requirement, and the name of the file that declares it."""

    requirement: Requirement
    file: str
    is_optional: bool = False  #: of an extra that none of the project's install lines names

    @property
    def pin(self) -> str:
        """The one release that it allows; empty if it allows several."""
        pinned = [each.version for each in self.requirement.specifier if each.operator in ("==", "===")]
        return pinned[0] if pinned and "*" not in pinned[0] else ""


def declared_requirements(folders: Iterable[Path]) -> dict[str, DeclaredRequirement]:
    """Return, by package, what the project of these folders requires. The nearest folder counts, of its files
    ``requirements.txt`` first, and a lock only for what no other file limits. Its own releases, which a README installs,
    are other code than what is there."""
    found: dict[str, DeclaredRequirement] = {}
    locked: dict[str, DeclaredRequirement] = {}
    projects = dict.fromkeys(one for folder in folders for one in project_folders(folder))
    installed = {name for project in projects for name in _installed_extras(project)}
    for project in projects:
        extras = _extras_of_setup(project / "setup.py")
        of_setup = [("setup.py", text) for name in sorted(installed & extras.keys()) for text in extras[name]]
        needed = ((file, text, False) for file, text in (*_texts(project), *of_setup, *_installed_texts(project)))
        optional = (
            *(("pyproject.toml", text, True) for text in _optional_texts(project)),
            *(("setup.py", text, True) for texts in extras.values() for text in texts),
        )
        for file, text, is_optional in (*needed, *optional):
            if (one := _requirement(text)) is not None:
                found.setdefault(canonicalize_name(one.name), DeclaredRequirement(one, file, is_optional))
        for file, text in _locked_texts(project):
            if (one := _requirement(text)) is not None:
                locked.setdefault(canonicalize_name(one.name), DeclaredRequirement(one, file))
    for own in map(name_of_project, projects):
        found.pop(own, None)
    for name in [name for name in found if module_named(name) in sys.stdlib_module_names]:
        del found[name]  # for an older Python: typing, dataclasses
    unlimited = [name for name, one in found.items() if not one.requirement.specifier]
    limited = {name: locked[name]._replace(is_optional=found[name].is_optional) for name in unlimited if name in locked}
    return {**found, **limited}


class AddressedRequirement(NamedTuple):
    """The address from which a project takes a package, and the name of the file that says so."""

    address: str  #: ``github.com/owner/name@branch``
    file: str
    path: Path = Path()  #: of the file


def addressed_requirements(folders: Iterable[Path]) -> dict[str, AddressedRequirement]:
    """Return, by package, what the project of these folders takes from repositories in place of releases; not the project
    itself."""
    found: dict[str, AddressedRequirement] = {}
    projects = dict.fromkeys(one for folder in folders for one in project_folders(folder))
    for project in projects:
        files = [*_files_of_pip(project), *(file for name in _OF_INSTALLING for file in sorted(project.glob(name)))]
        files += [project / name for name in ("pyproject.toml", "setup.py", "setup.cfg")]
        for file in files[: 2 * _MOST_FILES]:
            for name, address in _addresses(project_text(file)):
                found.setdefault(name, AddressedRequirement(address, file.name, file))
    own = {name_of_project(project) for project in projects}
    return {name: one for name, one in found.items() if name not in own}


def _addresses(text: str) -> Iterator[tuple[str, str]]:
    """Yield (package, address) of each requirement of a repository."""
    for name, address, fragment in _OF_GIT.findall(text):
        where, _, branch = address.partition("@")
        egg = re.search(r"egg=([\w.-]+)", fragment)
        package = name or (egg[1] if egg else where.rpartition("/")[2].removesuffix(".git"))
        yield canonicalize_name(package), where.removesuffix(".git") + (f"@{branch}" if branch else "")
    for name, address in _OF_TOML.findall(text):
        yield canonicalize_name(name), re.sub(r"^\w+://", "", address).removesuffix(".git")


def project_scripts(folder: Path) -> Mapping[str, str]:
    """Return, by its name, the ``module:function`` of each command that the project in ``folder`` installs."""
    scripts = table_of(_document(folder / "pyproject.toml"), "project").get("scripts", {})
    return {name: entry for name, entry in scripts.items() if isinstance(entry, str)}


def name_of_project(root: Path) -> str:
    """Return the distribution that a repository builds, normalised; empty if no file says it."""
    project = table_of(_document(root / "pyproject.toml"), "project")
    name = project.get("name")
    if name is None:
        name = _name_of_setup(project_text(root / "setup.py"))
    if name is None:
        found = re.search(
            r"""\bname\s*=\s*["']?([A-Za-z][\w.-]*)""",
            project_text(root / "setup.py") + project_text(root / "setup.cfg"),
        )
        name = found[1] if found else ""
    return canonicalize_name(str(name))


def _name_of_setup(text: str) -> str | None:
    """Return the name that a ``setup.py`` passes to ``setup``, and not that of an extension of it."""
    try:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError):
        return None
    named = [one for call in calls if ast.unparse(call.func).endswith("setup") for one in call.keywords]
    names = [one.value for one in named if one.arg == "name"]
    return next((str(one.value) for one in names if isinstance(one, ast.Constant)), None)


def project_folders(folder: Path) -> Iterator[Path]:
    """Yield ``folder`` and those above it up to its repository's; alone if it lies in none."""
    above = [folder, *folder.parents[:_MOST_ABOVE]]
    root = next((at for at, one in enumerate(above) if (one / ".git").exists()), 0)
    yield from above[: root + 1]


def _requirement(text: str) -> Requirement | None:
    """Return a requirement that holds here; None for an option of pip's, an address, or what another system needs."""
    try:
        found = Requirement(text)
        holds = found.marker is None or found.marker.evaluate({"extra": ""})
    except (InvalidRequirement, KeyError, ValueError):
        return None
    return found if holds else None


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (file, requirement) of one folder."""
    for file in _files_of_pip(folder)[:_MOST_FILES]:
        yield from ((str(file.relative_to(folder)), text) for text in _of_pip(file, set()))
    named = {
        "pyproject.toml": _of_pyproject(folder / "pyproject.toml"),
        "setup.py": _of_setup(folder / "setup.py"),
        "setup.cfg": _of_setup_cfg(folder / "setup.cfg"),
    }
    yield from ((file, text) for file, texts in named.items() for text in texts)
    conda = {file: None for name in _OF_CONDA for file in sorted(folder.glob(f"{name}*.y*ml"))}
    for file in [*conda][:_MOST_FILES]:
        yield from (
            (file.name, _of_conda(text))
            for text in _ENTRY.findall(project_text(file))
            if not _OF_CONDA_ALONE.match(text)
        )


def _of_conda(entry: str) -> str:
    """Return an entry of a conda environment as pip writes it. One sign and two numbers are the beginning of a release."""
    if (found := _OF_ONE_SIGN.fullmatch(entry)) is None:
        return entry
    name, release = found.groups()
    return f"{CONDA_NAMES.get(name, name)}=={release}{'' if release.count('.') != 1 else '.*'}"


def install_texts(folder: Path) -> Iterator[str]:
    """Yield the texts in which a folder says how its project is installed, with lines as one types them."""
    for file in _files_of_installing(folder):
        yield project_text(file).replace("\\\n", " ")


def _files_of_installing(folder: Path) -> list[Path]:
    return [file for name in _OF_INSTALLING for file in sorted(folder.glob(name))][:_MOST_FILES]


def _installed_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (file, requirement) of what a folder's files tell one to install. A torch there is that of a CUDA: its
    release says nothing."""
    for file in _files_of_installing(folder):
        for line in PIP_LINE.findall(project_text(file).replace("\\\n", " ")):
            for word in requirements_of_call(line):
                if not word.startswith("-r ") and "/" not in word:
                    yield file.name, _without_release_of_torch(word)
        for stated in stated_requirements(project_text(file)) if file.name.startswith("README") else ():
            if not _OF_CONDA_ALONE.match(stated.lower()):
                name = re.split(r"[^\w.-]", stated, maxsplit=1)[0]
                package = CONDA_NAMES.get(name.lower(), name)
                yield file.name, _without_release_of_torch(package + stated[len(name) :])


def _without_release_of_torch(requirement: str) -> str:
    return re.split(r"[=<>~!]", requirement)[0] if requirement.lower().startswith("torch") else requirement


def _locked_texts(folder: Path) -> Iterator[tuple[str, str]]:
    for name in ("uv.lock", "poetry.lock"):
        packages = _document(folder / name).get("package", [])
        for one in packages if isinstance(packages, list) else []:
            if isinstance(one, dict) and {"name", "version"} <= one.keys():
                yield name, f"{one['name']}=={one['version']}"


def _files_of_pip(folder: Path) -> list[Path]:
    """Return the files of requirements of one folder, ``requirements/train.txt`` among them; without the sources (``*.in``)
    of those that are there, and without constraints, which no one installs."""
    within = folder / "requirements"
    compiled = sorted(within.glob("*.txt"))
    sources = [file for file in sorted(within.glob("*.in")) if file.with_suffix(".txt") not in compiled]
    listed = [file for file in (*compiled, *sources) if not file.name.startswith("constraints")]
    files = [*sorted(folder.glob("requirements*.txt")), *listed]
    return [folder / "requirements.txt", *sorted(files, key=lambda file: bool(_OF_ANOTHER_USE.search(file.name)))]


def _of_pyproject(file: Path) -> Iterator[str]:
    """Yield what a project requires to run, then its groups."""
    document = _document(file)
    project, poetry = table_of(document, "project"), table_of(document, "tool", "poetry")
    yield from _strings(project.get("dependencies", []))
    yield from poetry_requirements(table_of(poetry, "dependencies"))
    extras = project.get("optional-dependencies", {})
    yield from _lists({name: extras[name] for name in _installed_extras(file.parent) if name in extras})
    yield from _lists(table_of(document, "dependency-groups"))
    for name in table_of(poetry, "group"):
        yield from poetry_requirements(table_of(poetry, "group", name, "dependencies"))


def _optional_texts(folder: Path) -> Iterator[str]:
    """Yield the requirements of a project's extras."""
    yield from _lists(table_of(_document(folder / "pyproject.toml"), "project").get("optional-dependencies", {}))


def _installed_extras(folder: Path) -> list[str]:
    """Return the extras with which a folder's files tell one to install its project: ``pip install -e ".[train,gpu]"``."""
    named = (_OF_EXTRAS.findall(text) for text in install_texts(folder))
    return sorted({name.strip() for found in named for listed in found for name in listed.split(",")})


def _of_pip(file: Path, seen: set[Path]) -> Iterator[str]:
    if file in seen or len(seen) > _MOST_FILES:
        return
    seen.add(file)
    for line in project_text(file).splitlines():
        if (other := re.match(r"\s*(?:-r|--requirement)[ =]\s*(\S+)", line)) is not None:
            yield from _of_pip(file.parent / other[1], seen)
        elif text := re.split(r"(?:^|\s)#|\s--", line)[0].strip():
            yield text


def _of_setup(file: Path) -> Iterator[str]:
    """Yield the texts of lists that ``setup.py`` names for requirements: an argument, or a variable of such a name."""
    try:
        nodes = list(ast.walk(ast.parse(project_text(file))))
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in nodes:
        names = [node.arg or ""] if isinstance(node, ast.keyword) else []
        names += [one.id for one in node.targets if isinstance(one, ast.Name)] if isinstance(node, ast.Assign) else []
        if not isinstance(node, (ast.keyword, ast.Assign)) or not any(map(_OF_REQUIREMENTS.search, names)):
            continue
        listed = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else []
        yield from (one.value for one in listed if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _extras_of_setup(file: Path) -> dict[str, list[str]]:
    """Return, by its name, the requirements of each extra in a ``setup.py``: ``EXTRAS = {"dev": ["fvcore>=0.1"]}``."""
    try:
        nodes = list(ast.walk(ast.parse(project_text(file))))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[str, list[str]] = {}
    for node in nodes:
        if isinstance(node, (ast.keyword, ast.Assign)) and isinstance(node.value, ast.Dict):
            names = [node.arg or ""] if isinstance(node, ast.keyword) else map(ast.unparse, node.targets)
            if any("extra" in name.lower() for name in names):
                for key, listed in zip(node.value.keys, node.value.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(listed, (ast.List, ast.Tuple)):
                        texts = [one.value for one in listed.elts if isinstance(one, ast.Constant)]
                        found[str(key.value)] = [text for text in texts if isinstance(text, str)]
    return found


def _of_setup_cfg(file: Path) -> Iterator[str]:
    read = configparser.ConfigParser(interpolation=None)
    try:
        read.read_string(project_text(file))
    except configparser.Error:
        return
    yield from filter(None, map(str.strip, read.get("options", "install_requires", fallback="").splitlines()))


def _document(file: Path) -> Mapping[str, Any]:
    try:
        return parsed_toml(project_text(file))
    except ValueError:
        return {}


def _lists(table: object) -> Iterator[str]:
    for listed in table.values() if isinstance(table, dict) else ():
        yield from _strings(listed)


def _strings(listed: object) -> Sequence[str]:
    return [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []


def project_text(file: Path) -> str:
    """Return the text of a file of a project; empty if it cannot be read."""
    try:
        return read_regular(file, MOST_FILE_BYTES, follow_links=True).decode()
    except (OSError, ValueError):
        return ""
