"""Releases that came to an index, each with the one before it."""

from __future__ import annotations

from dsregress.run.new_releases import NewRelease, newest_release, releases_since

PUBLISHED = ("2.0.0", "1.10.0", "1.9.0", "2.1.0rc1", "1.10.0+cpu")


def test_the_newest_release_is_the_last_final_one_and_is_measured_beside_the_one_before_it() -> None:
    assert newest_release("mine", PUBLISHED) == NewRelease("mine", "2.0.0", "1.10.0")


def test_a_first_release_has_none_to_be_measured_beside() -> None:
    assert newest_release("mine", ["1.0"]) is None
    assert newest_release("mine", ["1.0", "2.0rc1"]) is None


def test_since_a_day_all_that_are_newer_than_the_newest_then_are_new() -> None:
    assert releases_since("mine", PUBLISHED, ["1.9.0", "1.8.0"]) == [
        NewRelease("mine", "1.10.0", "1.9.0"),
        NewRelease("mine", "2.0.0", "1.10.0"),
    ]
    assert releases_since("mine", PUBLISHED, PUBLISHED) == []


def test_a_mend_of_an_older_series_is_not_new() -> None:
    assert releases_since("mine", ["1.0.0", "1.0.1", "2.0.0"], ["1.0.0", "2.0.0"]) == []
