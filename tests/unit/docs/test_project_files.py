"""The files that people look for in a project say the same as the project."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from packaging.requirements import Requirement

from tests.builders.sources import parsed
from tests.paths import ROOT, SOURCE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PYPROJECT["project"]["version"]

#: As [tool.towncrier] writes it.
_VERSION_HEADING = re.compile(r"^## (\S+) - (\d{4}-\d\d-\d\d)$", re.MULTILINE)


def test_the_changelog_has_this_version_or_it_is_not_released_yet() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "\n<!-- towncrier release notes start -->\n\n## " in text
    versions = [tuple(map(int, version.split("."))) for version, _ in _VERSION_HEADING.findall(text)]
    assert versions == sorted(set(versions), reverse=True)
    assert versions[0] <= tuple(map(int, VERSION.split(".")))


def test_every_fragment_has_a_type_that_the_changelog_knows() -> None:
    types = {kind["directory"] for kind in PYPROJECT["tool"]["towncrier"]["type"]}
    name = re.compile(rf"(\d+|\+[\w-]+)\.({'|'.join(sorted(types))})\.md")
    fragments = [file.name for file in (ROOT / PYPROJECT["tool"]["towncrier"]["directory"]).iterdir()]
    assert [fragment for fragment in fragments if fragment != "README.md" and not name.fullmatch(fragment)] == []
    said = (ROOT / "changes" / "README.md").read_text(encoding="utf-8")
    assert {kind for kind in types if f"`{kind}`" in said} == types


def test_a_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", text, re.MULTILINE) == [VERSION]


def test_hooks_of_pre_commit_use_the_packages_of_the_lint_session() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    used = re.findall(r'additional_dependencies: \["(.*)"\]', text)
    assert len(used) == text.count("- id:")
    assert set(used) == set(PYPROJECT["dependency-groups"]["lint"])


def test_the_host_imports_the_standard_library_and_what_the_wheel_requires() -> None:
    required = {Requirement(line).name for line in PYPROJECT["project"]["dependencies"]}
    allowed = required | {
        "_typeshed",
        "dsregress",
        "ray",
        "skeletons",
        "vgpu",
    }  # Ray is an extra, _typeshed of type checkers
    found = {
        f"{file.relative_to(SOURCE)}: {name}"
        for file in (SOURCE / "dsregress").rglob("*.py")
        if file.relative_to(SOURCE).parts[1] not in ("probe", "programs")
        for node in ast.walk(parsed(file))
        for name in imported_roots(node)
        if name not in allowed | sys.stdlib_module_names
    }
    assert found == set()


def imported_roots(node: ast.AST) -> set[str]:
    """The top-level packages that a statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    return {node.module.partition(".")[0]} if isinstance(node, ast.ImportFrom) and node.module else set()


def test_the_packages_have_types_and_say_so() -> None:
    assert {file.read_bytes() for file in SOURCE.glob("*/py.typed")} == {b""}
    assert len([*SOURCE.glob("*/py.typed")]) == len([*SOURCE.glob("*/__init__.py")])
    assert "Typing :: Typed" in PYPROJECT["project"]["classifiers"]


@pytest.mark.parametrize("minor", [10, 11, 12])
def test_the_description_names_the_pythons_that_are_tested(minor: int) -> None:
    assert f"Programming Language :: Python :: 3.{minor}" in PYPROJECT["project"]["classifiers"]
    assert f'"3.{minor}"' in (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def urls_of_a_build(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, str]:
    """The URLs that hatch_build.py gives a distribution. Only a build has hatchling."""
    stand_in = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", stand_in)
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    specification = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert specification is not None
    assert specification.loader is not None
    module: ModuleType = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    metadata: dict[str, dict[str, str]] = {}
    module.RepositoryUrls().update(metadata)
    return metadata.get("urls", {})


def test_a_release_names_the_repository_whose_workflow_builds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = urls_of_a_build(monkeypatch, GITHUB_SERVER_URL="https://git.example", GITHUB_REPOSITORY="them/theirs")
    assert urls == {
        "Homepage": "https://git.example/them/theirs",
        "Documentation": "https://git.example/them/theirs#documentation",
        "Changelog": "https://git.example/them/theirs/blob/HEAD/CHANGELOG.md",
        "Issues": "https://git.example/them/theirs/issues",
        "Security": "https://git.example/them/theirs/blob/HEAD/SECURITY.md",
    }
    for url in urls.values():
        path = Path(url.partition("/blob/HEAD/")[2])
        assert (ROOT / path).exists()


def test_what_is_built_elsewhere_names_no_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    assert urls_of_a_build(monkeypatch) == {}
