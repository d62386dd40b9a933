"""The plan of a view."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vgpu.isolation import layout
from vgpu.isolation.layout import How, Mount, Step

TABLE = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:40 / /data\040set rw,relatime shared:7 master:2 - nfs4 server:/x rw
"""


def test_mounts_are_read_from_the_kernels_table() -> None:
    assert layout.read_mounts(TABLE) == [Mount("/proc", "proc"), Mount("/", "ext4"), Mount("/data set", "nfs4")]


def test_a_folder_below_which_something_is_mounted_is_made_entry_by_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("home/scratch/inner", "home/mine", "proc", "dev", "usr/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "home" / "notes").touch()
    (tmp_path / "bin").symlink_to("usr/bin")
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scandir(f"{tmp_path}{path}"))
    mounts = [Mount("/", "ext4"), Mount("/proc", "proc"), Mount("/home/scratch", "xfs"), Mount("/dev", "tmpfs")]
    steps = [Step(step.path.replace(str(tmp_path), ""), step.how) for step in layout.plan_view(mounts)]
    assert steps == [
        Step("/bin", How.LINK),
        Step("/dev", How.READ_ONLY),
        Step("/home", How.FOLDER),
        Step("/home/mine", How.OVERLAY),
        Step("/home/notes", How.READ_ONLY),
        Step("/home/scratch", How.OVERLAY),
        Step("/proc", How.SHARED),
        Step("/usr", How.OVERLAY),
    ]


def test_a_folder_with_very_many_entries_or_that_cannot_be_listed_is_not_made_entry_by_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("engine/layer", "engine/other", "shut"):
        (tmp_path / folder).mkdir(parents=True)
    scandir = os.scandir

    def listed(path: str) -> object:
        if path == "/shut":
            raise PermissionError(13, "Permission denied", path)
        return scandir(f"{tmp_path}{path}")

    monkeypatch.setattr(os, "scandir", listed)
    monkeypatch.setattr(layout, "_MOST_ENTRIES", 1)
    steps = layout.plan_view([Mount("/", "ext4"), Mount("/engine/layer", "overlay"), Mount("/shut/x", "fuse")])
    assert steps == [Step("/engine", How.READ_ONLY), Step("/shut", How.FOLDER)]
