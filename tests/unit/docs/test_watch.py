"""``docs/watch.md`` is what its template makes of the replayed uploads."""

from __future__ import annotations

from tests.golden_files import Golden
from tests.paths import ROOT
from tests.unit.docs import replay_page


def test_the_page_about_watching_has_the_replayed_uploads(golden: Golden) -> None:
    golden(replay_page.PAGE.relative_to(ROOT).as_posix(), replay_page.written(), folder=ROOT)


def test_what_was_replayed_is_of_a_listed_upload_and_each_thread_says_how_it_was_found() -> None:
    problems = [*replay_page.replayed()]
    assert {" ".join(key) for key in replay_page.answers()} == {
        one.release for one in problems if one.is_found is not None
    }
    assert all(one.how for one in problems)
