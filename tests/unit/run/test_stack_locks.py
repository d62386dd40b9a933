"""The newest releases of added packages go with all stacks that are compared."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dsregress.config.settings import Settings
from dsregress.model import Failed, NotInstalled, Stack
from dsregress.run import stack_locks
from dsregress.run.stack_locks import newest_beside_all

STACKS = [Stack(python="3.11", versions={"it": one}) for one in ("1.0", "2.0")]


class OfIndexes:
    """An installer whose index has releases of ``helper``, of which each ``it`` allows those up to its newest."""

    def __init__(self, **allowed: str) -> None:
        self.allowed = {"1.0": allowed["first"], "2.0": allowed["second"]}

    def compile(self, source: Path, output: Path, python: str, overrides: Path | None) -> NotInstalled | None:
        wanted = source.read_text().split()
        it = next(line for line in wanted if line.startswith("it==")).removeprefix("it==")
        newest = self.allowed[it]
        named = [line for line in wanted if line.startswith("helper")]
        if any(line.startswith("helper==") and line != f"helper=={newest}" and it == "2.0" for line in named):
            return Failed("install", f"no solution: it {it} needs helper=={newest}")
        if f"helper>{newest}" in named:
            return Failed("install", f"no solution: only helper<={newest} is available")
        exact = next((line.removeprefix("helper==") for line in named if line.startswith("helper==")), newest)
        output.write_text(f"it=={it}\nhelper=={exact}\n")
        return None


def found(installer: OfIndexes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    settings = msgspec.structs.replace(Settings(), environments=str(tmp_path))
    monkeypatch.setattr(stack_locks.locking, "TOOLS", ())
    return newest_beside_all(STACKS, {"helper": ""}, settings, installer)  # type: ignore[arg-type]


def test_what_goes_with_the_baseline_alone_gives_way_to_what_goes_with_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(OfIndexes(first="3.0", second="2.0"), tmp_path, monkeypatch) == {"helper": "2.0"}


def test_what_goes_with_all_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(OfIndexes(first="2.0", second="2.0"), tmp_path, monkeypatch) == {"helper": "2.0"}
