"""What import-linter (`[tool.importlinter]` in pyproject.toml) cannot say about the packages. See docs/architecture.md."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.sources import parsed
from tests.paths import ROOT, SOURCE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = SOURCE / "dsregress"

#: Modules of the probe that the host imports: standard library, made for both sides.
BORDER = [
    "dsregress.probe.scenario",
    *(f"dsregress.probe.border.{file.stem}" for file in sorted((PACKAGE / "probe" / "border").glob("[!_]*.py"))),
]

#: What else of the probe the host imports: how workloads are declared, adapters by their ids, factors, the tables of known
#: models, which torch can be measured, and of the virtual GPU its cards, figures and what keeps a program from user files.
SHARED = [
    "dsregress.probe.adapters",
    "dsregress.probe.factor",
    "dsregress.probe.factor_files",
    "dsregress.probe.factors",
    "dsregress.probe.launch_line",
    "dsregress.probe.module_packages",
    "dsregress.probe.oldest_torch",
    "dsregress.probe.program",
    "dsregress.probe.program_imports",
    "dsregress.probe.scenario",
    "dsregress.probe.shell_syntax",
    "skeletons.maker_answer",
    "skeletons.hub_names",
    "skeletons.known_models",
    "vgpu.card_catalogue",
    "vgpu.card_room",
    "vgpu.figures",
    "vgpu.isolation",
    "vgpu.no_stand_in",
    "vgpu.process_control",
    "vgpu.trees",
]

#: Packages of what runs in measured environments.
MEASURING_ROOMS = ("probe", "programs")
MEASURING = (*(f"dsregress.{room}" for room in MEASURING_ROOMS), "skeletons", "vgpu")

#: file -> why it may read the process's environment.
READS_ENVIRON = {
    "config/settings.py": "it is its job",
    "config/search_path.py": "it is its job",
    "config/variables.py": "it is its job",
    "cli/__init__.py": "DSREGRESS_DEBUG decides how an error in config is shown",
}


def host_files() -> list[Path]:
    """All but what runs in measured environments."""
    return [file for file in PACKAGE.rglob("*.py") if file.relative_to(PACKAGE).parts[0] not in MEASURING_ROOMS]


def _is_module(place: Path) -> bool:
    return place.with_name(f"{place.name}.py").is_file() or (place / "__init__.py").is_file()


def imported_modules(file: Path) -> set[str]:
    """The modules that a file imports, or imports from."""
    found = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in names if _is_module(SOURCE / name.replace(".", "/"))}
            found |= modules or {node.module}
    return found


def test_the_host_imports_nothing_of_the_probe_but_what_was_made_for_both() -> None:
    """A list of what is forbidden, as import-linter has it, would let each new module of the probe through."""
    of_the_probe = {name for file in host_files() for name in imported_modules(file) if name.startswith(MEASURING)}
    assert of_the_probe <= {*BORDER, *SHARED}


def test_every_room_is_described_and_named_in_each_contract_about_all_of_them() -> None:
    rooms = {folder.parent.name for folder in PACKAGE.glob("*/__init__.py")}
    described = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert {room for room in rooms if f"`harness/dsregress/{room}/`" not in described} == set()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    of_the_host = {f"dsregress.{room}" for room in rooms - {*MEASURING_ROOMS}}
    for contract in contracts:
        if contract["type"] == "forbidden" and "dsregress" not in contract["forbidden_modules"]:
            named = {*contract["source_modules"], *contract["forbidden_modules"]}
            assert of_the_host - named == set(), contract["name"]


def test_only_config_reads_the_environment() -> None:
    readers = {
        file.relative_to(PACKAGE).as_posix()
        for file in host_files()
        for node in ast.walk(parsed(file))
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"))
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }
    assert readers == set(READS_ENVIRON)


def test_only_one_module_of_the_probe_walks_what_is_imported() -> None:
    """A question to a lazy module imports more, which changes what is walked (`vgpu.loaded`)."""
    walkers = {
        file.relative_to(SOURCE).as_posix()
        for package in MEASURING
        for file in (SOURCE / package.replace(".", "/")).rglob("*.py")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Attribute)
        and node.attr in ("items", "values", "keys")
        and ast.unparse(node.value) == "sys.modules"
    }
    assert walkers == {"vgpu/loaded.py"}


@pytest.mark.parametrize(
    "code",
    [
        "import dsregress.cli.scenarios, dsregress.run.pipeline",
        "from dsregress.probe import scenario; from pathlib import Path; "
        "[scenario.load(f) for f in scenario.find(Path('scenarios')).values()]",
        *(f"import {module}" for module in BORDER),
    ],
)
def test_the_host_needs_no_torch(code: str) -> None:
    check = "; import sys; assert not {'torch', 'deepspeed', 'transformers'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + check], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", BORDER)
def test_what_both_sides_import_is_standard_library_only(module: str) -> None:
    file = SOURCE / f"{module.replace('.', '/')}.py"
    for node in ast.walk(parsed(file)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or name.startswith(MEASURING), name


def test_files_of_programs_have_names_of_their_own() -> None:
    """A name says what the file has without its folder, anywhere in the project."""
    names = [file.stem for file in SOURCE.rglob("*.py") if "measured" not in file.parts and file.stem[0] != "_"]
    of_programs = [file.stem for file in (PACKAGE / "programs").rglob("*.py") if file.stem[0] != "_"]
    assert [name for name in of_programs if names.count(name) > 1] == []


def test_tests_of_programs_lie_where_their_modules_do() -> None:
    tests, modules = ROOT / "tests" / "programs", PACKAGE / "programs"
    folders = {file.stem: file.parent.relative_to(modules) for file in modules.rglob("*.py") if file.stem[0] != "_"}
    for test in tests.rglob("test_*.py"):
        module = test.stem.removeprefix("test_")
        assert folders.get(module, test.parent.relative_to(tests)) == test.parent.relative_to(tests), test


def test_each_broad_except_gives_its_reason_in_its_line() -> None:
    """Four words or more, after ``except Exception:`` as after ``contextlib.suppress(Exception)``."""
    without = []
    for file in sorted(SOURCE.rglob("*.py")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ExceptHandler):
                caught = [node.type] if node.type is not None else []
                is_broad = node.type is None
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                caught, is_broad = node.args, False
            else:
                continue
            is_broad |= any(ast.unparse(one) in ("Exception", "BaseException") for one in caught)
            if is_broad and len(lines[node.lineno - 1].partition("  # ")[2].split()) < 4:
                without.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert without == []


def test_a_command_that_only_answers_imports_nothing_that_measures() -> None:
    """``audit`` is asked in every pull request, and in containers that keep no bytecode."""
    heavy = (
        "numpy",
        "scipy",
        "docker",
        "jinja2",
        "dsregress.run.pipeline",
        "dsregress.run.targets",
        "dsregress.compare",
    )
    check = f"import sys, dsregress.cli.audit; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
