"""What is in the way of a folder is named, and nobody is sent to free space for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.errors import EnvironmentUnavailable
from dsregress.system.obstacles import obstacle_error


def _refusal(folder: Path) -> EnvironmentUnavailable:
    with pytest.raises((FileExistsError, FileNotFoundError, NotADirectoryError)) as caught:
        folder.mkdir(parents=True, exist_ok=True)
    return obstacle_error(EnvironmentUnavailable, "cannot be written", caught.value, where=folder, hint="free space")


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    link = tmp_path / "shared"
    link.symlink_to("/nowhere/shared")
    said = (
        f"{link}: cannot be written: it is a link to /nowhere/shared, which does not exist; mount or create the target, or "
        "remove the link"
    )
    assert str(_refusal(link)) == said
    assert str(_refusal(link / "torch" / "build")) == said


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.write_text("")
    said = f"{file}: cannot be written: it is a file where a folder is needed; move it away"
    assert str(_refusal(file)) == said
    assert str(_refusal(file / "new")) == said


def test_any_other_reason_keeps_the_advice(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device", str(tmp_path / "x"))
    error = obstacle_error(EnvironmentUnavailable, "cannot be written", full, where=tmp_path, hint="free space")
    assert str(error) == f"{tmp_path}: cannot be written: No space left on device; free space"
