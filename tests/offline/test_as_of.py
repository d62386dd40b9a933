"""A run as of a day knows what the package index had then, and nothing that came later."""

from __future__ import annotations

import pytest

from tests.offline.project import GOOD, VERSION, Project, stack

HUNGRY = VERSION["hungry"]


@pytest.mark.parametrize(("day", "newest"), [("2025-02-19", GOOD), ("2025-02-20", HUNGRY)])
def test_the_newest_release_is_the_newest_of_that_day(dated: Project, day: str, newest: str) -> None:
    report = dated.regress("--as-of", day)
    assert {each["id"] for each in report.json["stacks"]} == {stack(GOOD), stack(newest)}
    assert report.code == (0 if newest == GOOD else 1)


def test_a_release_that_came_later_is_refused(dated: Project) -> None:
    said = dated.run("regress", "--as-of", "2025-02-19", "--with", f"tinyframe={HUNGRY}")
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        f"dsregress: error: tinyframe: unknown release {HUNGRY}; nearest are {GOOD}; "
        "the index had nothing else on 2025-02-19 (--as-of)"
    )


def test_a_day_that_is_none_is_refused(dated: Project) -> None:
    said = dated.run("regress", "--as-of", "yesterday")
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        "dsregress: error: command line: as_of is no day: 'yesterday'; write it like 2025-02-20"
    )
