"""The releases of a day that are taken go together."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsregress.config.settings import Settings
from dsregress.model import Failed, NotInstalled, Stack
from dsregress.run import releases_of_day
from dsregress.run.project_requirements import AddressedRequirement
from dsregress.run.releases_of_day import OfCommit, day_of_last_commit, releases_of_commits, releases_that_go_together

FOUND = {"transformers": "4.40.0", "protobuf": "5.26.1", "wandb": "0.16.6"}
BASE = Stack(
    python="3.11",
    versions={"torch": "2.13.0", "transformers": "5.24.0", "protobuf": "7.0", "wandb": "0.31.0", "fschat": "0.2.36"},
)


@pytest.mark.parametrize(
    ("resolved", "taken"),
    [
        (
            {"protobuf": "4.25.9", "wandb": "0.16.6"},
            {"transformers": "4.40.0", "protobuf": "4.25.9", "wandb": "0.16.6"},
        ),
        (Failed("install", "no solution: x"), {"transformers": "4.40.0"}),
    ],
)
def test_an_older_release_is_taken_of_what_excludes_another_of_the_day(
    resolved: Mapping[str, str] | NotInstalled, taken: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Stack, Mapping[str, str]]] = []

    def newest(stack: Stack, limits: Mapping[str, str], *rest: Any) -> Mapping[str, str] | NotInstalled:
        asked.append((stack, limits))
        return resolved

    monkeypatch.setattr(releases_of_day, "newest_beside", newest)
    installer: Any = None
    assert releases_that_go_together(FOUND, BASE, Settings(), installer) == taken
    ((stack, limits),) = asked
    assert stack.versions == {"torch": "2.13.0", "transformers": "4.40.0", "fschat": "0.2.36"}
    assert limits == {"protobuf": "<=5.26.1", "wandb": "<=0.16.6"}


def test_packages_of_every_stack_alone_are_taken_as_they_are() -> None:
    installer: Any = None
    assert releases_that_go_together({"peft": "0.10.0"}, BASE, Settings(), installer) == {"peft": "0.10.0"}


def dated_commit(folder: Path, day: str, **files: str) -> None:
    """Commit files in a repository, which is made, on a day: name without its dot -> text."""
    dated = {"GIT_COMMITTER_DATE": f"{day}T12:00:00", "GIT_AUTHOR_DATE": f"{day}T12:00:00"}
    who = ("-c", "user.name=x", "-c", "user.email=x@x.x")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True, env={**os.environ, **dated})


def test_a_commit_that_a_project_takes_is_dated_by_the_change_that_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "requirements.txt"
    text = ""
    for day, line in (("2025-01-02", "a"), ("2025-03-11", "trl@git+https://x/trl@019fc6dbaa03"), ("2025-05-14", "+")):
        text += f"{line}\n"
        dated_commit(tmp_path, day, requirements_txt=text)
    asked: list[str] = []

    def of_day(day: str, packages: Any, installer: Any) -> dict[str, str]:
        asked.append(day)
        return dict.fromkeys(packages, "0.15.2")

    monkeypatch.setattr(releases_of_day, "releases_of_day", of_day)
    installer: Any = SimpleNamespace(environment=os.environ)
    addressed = {
        "trl": AddressedRequirement("x/trl@019fc6dbaa03", file.name, file),
        "peft": AddressedRequirement("x/peft@main", file.name, file),
    }
    assert releases_of_commits(addressed, installer) == {"trl": OfCommit("0.15.2", "2025-03-11")}
    assert asked == ["2025-03-11"]


def test_a_project_is_of_the_day_on_which_its_code_was_changed_last(tmp_path: Path) -> None:
    """What `init` writes is committed later, and says nothing of the packages that the code goes with."""
    installer: Any = SimpleNamespace(environment=os.environ)
    assert day_of_last_commit(tmp_path, installer) == ""
    dated_commit(tmp_path, "2023-07-26", README_md="a")
    assert day_of_last_commit(tmp_path, installer) == "2023-07-26"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("import torch")
    dated_commit(tmp_path, "2023-09-07")
    dated_commit(tmp_path, "2026-11-29", dsregress_toml="[tool.dsregress.job]")
    assert day_of_last_commit(tmp_path, installer) == "2023-09-07"
    assert day_of_last_commit(tmp_path / "src", installer) == "2023-09-07"
