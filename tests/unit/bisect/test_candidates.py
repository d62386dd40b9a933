"""What lies between two versions: here, the stack that is around the package that is searched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from dsregress.bisect import candidates
from dsregress.config.settings import read_settings
from dsregress.envs.installer import Installer
from dsregress.errors import UsageError
from dsregress.model import Failed
from tests.paths import ROOT


class Index:
    """An index whose newest release of everything that goes with a stack is 2.1."""

    as_of = ""

    def published(self, package: str) -> tuple[str, ...]:
        return (package.partition("==")[2] or "2.1",)

    def compile(self, source: Path, output: Path, python: str, overrides: Path | None = None) -> Failed | None:
        lines = [re.sub("(>=|<).*", "", one) for one in source.read_text().split()]
        if any(">2.1" in one for one in lines):
            return Failed("install", "no solution: 2.1 is the newest")
        output.write_text("".join(f"{one}\n" if "==" in one else f"{one}==2.1\n" for one in lines))
        return None


INDEX = cast(Installer, Index())


def test_a_package_without_a_version_is_the_newest_that_goes_with_the_baseline() -> None:
    settings = read_settings(start=ROOT, environ={})
    fixed = {"torch": "2.6.0", "made-up": "", "another": "1.0"}
    stack = candidates.with_fixed(settings, "deepspeed", fixed, None, INDEX).stack
    assert stack == {**settings.stack, "torch": "2.6.0", "made-up": "2.1", "another": "1.0"}


def test_what_the_stack_has_already_is_not_added() -> None:
    with pytest.raises(UsageError, match="peft is already in the stacks, as .*--with peft=SPEC"):
        candidates.with_fixed(read_settings(start=ROOT, environ={}), "deepspeed", {"peft": ""}, None, INDEX)


def test_a_package_that_a_project_brings_itself_is_left_out_of_the_stack() -> None:
    settings = read_settings(start=ROOT, environ={})
    stack = candidates.with_fixed(settings, "deepspeed", {}, None, INDEX, left_out=("peft",)).stack
    assert stack == {name: spec for name, spec in settings.stack.items() if name != "peft"}
