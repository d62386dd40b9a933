"""Lists of packages in TOML, JSON and YAML."""

from __future__ import annotations

import json

import pytest

from dsregress.errors import UsageError
from dsregress.versions.installed import read_packages

PYLOCK = """lock-version = "1.0"
[[packages]]
name = "deepspeed"
version = "0.16.8"
[[packages]]
name = "torch"
version = "2.6.0+cu124"
marker = "sys_platform == 'linux'"
[[packages]]
name = "torch"
version = "2.2.2"
marker = "sys_platform == 'darwin'"
[[packages]]
name = "trl"
vcs = {type = "git", url = "https://host/trl"}
"""
PIPFILE = {"default": {"deepspeed": {"version": "==0.16.8"}, "trl": {"git": "https://host/trl"}}}
INSPECTED = {"installed": [{"metadata": {"name": "deepspeed", "version": "0.16.8"}}]}
LISTED = [{"name": "deepspeed", "version": "0.16.8"}, {"name": "pytorch", "version": "2.5.1", "channel": "pytorch"}]
CONDA = """version: 1
package:
- {name: pytorch, version: 2.5.1, manager: conda, platform: linux-64}
- {name: pytorch, version: 2.2.2, manager: conda, platform: osx-arm64}
- {name: deepspeed, version: 0.16.8, manager: pip}
"""


@pytest.mark.parametrize(
    ("file", "text", "versions", "unknown", "is_whole"),
    [
        ("pylock.toml", PYLOCK, {"deepspeed": "0.16.8", "torch": "2.6.0"}, {"trl"}, True),
        ("Pipfile.lock", json.dumps(PIPFILE), {"deepspeed": "0.16.8"}, {"trl"}, True),
        ("inspect.json", json.dumps(INSPECTED), {"deepspeed": "0.16.8"}, set(), True),
        ("list.json", json.dumps(LISTED), {"deepspeed": "0.16.8", "torch": "2.5.1"}, set(), False),
        ("conda-lock.yml", CONDA, {"deepspeed": "0.16.8", "torch": "2.5.1"}, set(), True),
        (
            "pyproject.toml",
            "[project]\ndependencies = ['deepspeed==0.16.8', 'torch>=2.5']\n"
            "[project.optional-dependencies]\ndev = ['trl==0.9.6']\n",
            {"deepspeed": "0.16.8"},
            {"torch"},
            False,
        ),
        (
            "pyproject.toml",
            "[tool.poetry.dependencies]\npython = '^3.10'\ntorch = '2.5.1'\npeft = '^0.14'\n",
            {"torch": "2.5.1"},
            {"peft"},
            False,
        ),
    ],
)
def test_a_list_of_packages_is_read_in_each_form(
    file: str, text: str, versions: dict[str, str], unknown: set[str], is_whole: bool
) -> None:
    found = read_packages(text.encode(), file)
    assert (found.versions, set(found.unknown), found.is_whole) == (versions, unknown, is_whole)


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        (
            "pixi.lock",
            "version: 6\npackages: []\n",
            "pixi.lock: is pixi's lock, in YAML, which is not read; give the output of `pixi list`",
        ),
        (
            "pyproject.toml",
            "[tool.poetry]\nname = 'x'\n",
            "pyproject.toml: has no `dependencies` of a [project]; give its lock, or the output of `pip freeze`",
        ),
        (
            "conda-lock.yml",
            "package:\n- {name: [\n",
            "conda-lock.yml: not valid YAML: ",
        ),
        ("Dockerfile", "FROM x:1\n", "Dockerfile:1: not a requirement: 'FROM x:1'; write NAME==VERSION, or give the "),
        ("x.json", "{}", "x.json: is JSON, and no list of packages; a configuration is given by --config"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_with_the_command_that_prints_one(
    file: str, text: str, error: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_packages(text.encode(), file)
    assert str(refused.value).startswith(error)
