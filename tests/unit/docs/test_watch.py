"""``docs/watch.md`` is what its template makes of the replayed uploads."""

from __future__ import annotations

from tests.golden_files import Golden
from tests.paths import ROOT
from tests.unit.docs import replay_page


def test_the_page_about_watching_has_the_replayed_uploads(golden: Golden) -> None:
    golden(replay_page.PAGE.relative_to(ROOT).as_posix(), replay_page.written(), folder=ROOT)


def test_every_upload_has_an_answer_and_a_thread_that_was_looked_for() -> None:
    assert {one.release for one in replay_page.replayed()} == {" ".join(key) for key in replay_page.answers()}
    assert all(one.how for one in replay_page.replayed())
