"""The yanked releases that are known offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dsregress.versions import yanked
from dsregress.versions.releases import is_too_old, known_releases


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty file in place of the committed one."""
    monkeypatch.setattr(yanked, "FILE", tmp_path / "yanked.toml")
    yanked.yanked_releases.cache_clear()
    yield tmp_path / "yanked.toml"
    yanked.yanked_releases.cache_clear()


def test_what_is_written_is_read_again_without_what_is_too_old_to_be_measured(file: Path) -> None:
    found = {
        "transformers": {"4.57.0": 'no "setup" \\ here', "4.9.0": "too old", "4.46.0": ""},
        "deepspeed": {"0.3.11": "adam"},
        "torch": {},
    }
    yanked.write_yanked(found)
    assert yanked.yanked_releases() == {"transformers": {"4.46.0": "", "4.57.0": 'no "setup" \\ here'}}
    assert "[deepspeed]" not in file.read_text("utf-8")


def test_no_committed_release_is_among_those_that_are_also_listed() -> None:
    for package, reasons in yanked.yanked_releases().items():
        assert set(reasons).isdisjoint(known_releases(package))
        assert not [one for one in reasons if is_too_old(package, one)]
