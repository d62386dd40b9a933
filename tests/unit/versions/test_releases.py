"""Releases as they are known offline, and in order."""

from __future__ import annotations

import pytest
from packaging.version import Version

from dsregress.versions.releases import parsed_version, sorted_versions


def test_a_release_is_a_version() -> None:
    assert parsed_version("0.16.4") == Version("0.16.4")


@pytest.mark.parametrize("text", ["", "a branch", "1a2b3c4"])
def test_another_text_is_none(text: str) -> None:
    assert parsed_version(text) is None


def test_versions_are_put_in_order_without_builds_and_other_texts() -> None:
    assert sorted_versions(["0.16.10", "0.16.9", "0.16.9", "2.13.0+cpu", "main"]) == ("0.16.9", "0.16.10")
