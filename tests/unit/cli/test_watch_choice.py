"""New releases of a job's own packages alone, and one that does not go with the others keeps none from being measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from dsregress.cli import watch
from dsregress.cli.configured_job import ConfiguredWorkload
from dsregress.config.job import JobSettings
from dsregress.config.settings import DEFAULT_STACK, Settings
from dsregress.errors import EXIT_NOTHING_MEASURED, NoReleaseFits
from dsregress.run import pipeline
from dsregress.run.cell_matrix import Selection
from dsregress.run.new_releases import NewRelease


def test_what_does_not_go_together_is_said_in_a_comment_and_no_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def excluded(*given: Any) -> None:
        raise NoReleaseFits("the releases given do not go together: no solution: datasets needs huggingface-hub>=1.31")

    release = NewRelease(package="datasets", version="5.2.0", before="5.1.0")
    job = cast(Any, SimpleNamespace(settings=None, choice=lambda one: None, stack_ids=excluded))
    monkeypatch.setattr(pipeline, "plan_run", excluded)
    assert not watch._is_stored(release, set(), job, cast(Any, None))
    done = watch._measure(release, job, cast(Any, None), tmp_path, is_shown=False)
    assert done.exit_code == EXIT_NOTHING_MEASURED
    first, _, line = watch._comment([release], [done]).splitlines()
    assert first == "**dsregress: 1 new release**"
    assert line.startswith("- datasets 5.2.0, beside 5.1.0: not measured: the releases given do not go together")


def test_a_night_of_many_releases_has_a_comment_of_fifteen_lines() -> None:
    releases = [NewRelease(package=f"package-{number}", version="2.0", before="1.0") for number in range(30)]
    done = watch._WatchedRun(exit_code=1, answer="1 crash", drafts=({"title": "It ends"},))
    comment = watch._comment(releases, [done] * 30).splitlines()
    assert len(comment) == 15
    assert comment[2] == "- package-0 2.0, beside 1.0: 1 crash"
    assert comment[-1].startswith("- 30 drafts of advisories: It ends")


@pytest.mark.parametrize(
    ("packages", "watched"),
    [(("torch==2.13.0", "deepspeed==0.19.8"), ("torch", "deepspeed", "pillow")), ((), (*DEFAULT_STACK, "pillow"))],
)
def test_releases_of_what_a_job_does_not_have_are_not_watched(
    packages: tuple[str, ...], watched: tuple[str, ...], tmp_path: Path
) -> None:
    settings = Settings(root=str(tmp_path), job=JobSettings(program="deepspeed train.py", packages=packages))
    program = cast(Any, object())
    job = ConfiguredWorkload(settings=settings, selection=Selection(), added={"pillow": ""}, program=program)
    assert watch._packages_of(job) == watched
    stack = msgspec.structs.replace(job, program=None)
    assert watch._packages_of(stack) == (*DEFAULT_STACK, "pillow")
