"""The oldest releases of partners that anything was run with."""

from __future__ import annotations

import pytest

from dsregress.advisories.matching import parsed
from dsregress.advisories.oldest_run import older_than_run, oldest_run
from tests.unit.advisories.stored import records


def test_only_releases_of_an_older_minor_version_are_older_than_all_that_was_run() -> None:
    versions = {"torch": "2.1.2", "transformers": "4.35.0", "accelerate": "1.2.1", "deepspeed": "0.9.0"}
    assert list(older_than_run(versions)) == ["torch 2.1.2"]


@pytest.mark.slow
def test_they_are_those_of_the_stored_results() -> None:
    found: dict[str, set[str]] = {name: set() for name in oldest_run()}
    for record in records():
        for name in found.keys() & record.versions.keys():
            found[name].add(record.versions[name])
    assert {name: min(versions, key=parsed) for name, versions in found.items()} == oldest_run()
