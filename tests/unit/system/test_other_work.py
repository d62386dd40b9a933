"""What else keeps the machine busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dsregress.system.other_work import busy_cores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def stat(user: int, idle: int = 0, steal: int = 0, of_another: int = 0) -> str:
    core, another = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0)) + 1
    return (
        f"cpu  {user + of_another} 0 0 {idle} 0 0 0 {steal} 0 0\n"
        f"cpu{core} {user} 0 0 {idle} 0 0 0 {steal} 0 0\n"
        f"cpu{another} {of_another} 0 0 0 0 0 0 0 0 0\nintr 5 4\n"
    )


def test_work_on_cores_that_this_process_may_use_counts_and_time_lost_to_other_machines_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "stat"
    file.write_text(stat(1000))
    ticks = os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(time, "sleep", lambda for_s: file.write_text(stat(1000 + ticks // 10, ticks, ticks, ticks)))
    assert busy_cores(0.2, file) == pytest.approx(0.5)


def test_where_the_system_does_not_say_no_core_is_busy(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu0 much\n")
    assert busy_cores(0.01, tmp_path / "stat") == 0
    assert busy_cores(0.01, tmp_path / "none") == 0


def test_a_busy_process_is_seen() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        assert busy_cores() > 0.3
    finally:
        busy.kill()
        busy.wait()
