"""A run as of a day knows what the package index had then, and nothing that came later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import http_indexes
from tests.offline.project import GOOD, NOT_INSTALLING, VERSION, Project, stack
from tests.packages import build

HUNGRY = VERSION["hungry"]

#: When the index got them; the rest came before.
DAYS = {f"tinyframe-{version}": "2025-03-01" for version in (*build.RELEASES, NOT_INSTALLING)} | {
    f"tinyframe-{GOOD}": "2025-01-01",
    f"tinyframe-{HUNGRY}": "2025-02-20",
}


@pytest.fixture
def project(shared: Project, tmp_path: Path) -> Iterator[Project]:
    with http_indexes.served(shared.folder / "index", DAYS) as index:
        configuration = tmp_path / "pip.conf"
        configuration.write_text(f"[global]\nindex-url = {index.url}\n")
        variables = {**shared.variables, "PIP_CONFIG_FILE": str(configuration)}
        project = Project(folder=tmp_path, variables=variables, work=shared.work)
        project.configure(GOOD, "latest")
        yield project


@pytest.mark.parametrize(("day", "newest"), [("2025-02-19", GOOD), ("2025-02-20", HUNGRY)])
def test_the_newest_release_is_the_newest_of_that_day(project: Project, day: str, newest: str) -> None:
    report = project.regress("--as-of", day)
    assert {each["id"] for each in report.json["stacks"]} == {stack(GOOD), stack(newest)}
    assert report.code == (0 if newest == GOOD else 1)


def test_a_release_that_came_later_is_refused(project: Project) -> None:
    said = project.run("regress", "--as-of", "2025-02-19", "--with", f"tinyframe={HUNGRY}")
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        f"dsregress: error: tinyframe: unknown release {HUNGRY}; nearest are {GOOD}; "
        "the index had nothing else on 2025-02-19 (--as-of)"
    )


def test_a_day_that_is_none_is_refused(project: Project) -> None:
    said = project.run("regress", "--as-of", "yesterday")
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        "dsregress: error: command line: as_of is no day: 'yesterday'; write it like 2025-02-20"
    )
