"""The benchmarks measure what they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsregress.cli.signals import Interrupted
from tests.benchmarks import stored, sweep, watching
from tests.benchmarks.__main__ import main
from tests.benchmarks.environments import _added_bytes
from tests.benchmarks.figures import BenchmarkFigure, MachineDescription, lines, measured
from tests.paths import ROOT, SOURCE

MACHINE = MachineDescription(date="2026-01-01", cpu="a processor", cores=2, memory_gib=24, python="3.11.7", load=0.5)


def test_repeats_are_shown_as_their_median_with_the_spread() -> None:
    figures = [measured("A", "time", [3.0, 1.0, 2.0], "s", "under 5"), measured("B", "number", [12345], "x")]
    assert lines(MACHINE, figures) == [
        "a processor, 2 cores, 24 GiB, Python 3.11.7",
        "2026-01-01, load before the run 0.5",
        "",
        "A",
        "  time             2 s   [1, 3]   (goal: under 5)",
        "",
        "B",
        "  number      12,345 x",
    ]


def test_a_file_that_is_linked_into_two_environments_counts_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (first / "shared").write_bytes(b"x" * 100_000)
    os.link(first / "shared", second / "shared")
    (second / "own").write_bytes(b"x" * 4096)
    sizes = _added_bytes([str(first), str(second)])
    assert sizes[0] >= 100_000
    assert 4096 <= sizes[1] < 50_000


@pytest.mark.slow
def test_memory_and_processor_time_of_all_processes_are_seen(tmp_path: Path) -> None:
    child = "import time; x = bytearray(60 << 20); time.sleep(0.6); sum(range(3_000_000))"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); sys.exit(1)"
    cost = watching.run([sys.executable, "-c", program], dict(os.environ), str(tmp_path))
    assert cost.exit_code == 1
    assert cost.wall_s > 0.6
    assert 60 << 20 < cost.peak_bytes < 200 << 20
    assert 0.01 < cost.cpu_s < cost.wall_s + 1


@pytest.mark.slow
def test_memory_of_what_ran_before_is_not_seen(tmp_path: Path) -> None:
    other = "x = bytearray(300 << 20); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as before:
        assert before.stdout is not None
        before.stdout.readline()
        cost = watching.run([sys.executable, "-c", "import time; time.sleep(0.5)"], dict(os.environ), str(tmp_path))
    assert 0 < cost.peak_bytes < 200 << 20


@pytest.mark.slow
def test_many_stored_results_are_reported_and_measured() -> None:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment["PYTHONPATH"] = str(SOURCE)
    figures = list(stored.run(environment, str(ROOT), 1, counts=(120, 240)))
    assert [figure.unit for figure in figures] == ["s", "s", "GiB", "kB", "s", "GiB", "s", "s", "s", "GiB", "kB", "x"]
    assert all(figure.value > 0 for figure in figures)


def test_an_interruption_leaves_the_figures_that_were_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> Iterator[BenchmarkFigure]:
        yield measured("sweep", "simulated cells", [10_000], "cells")
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(sweep, "run", interrupted)
    assert main(["sweep"]) == 128 + signal.SIGTERM
    shown = capsys.readouterr()
    assert "simulated cells      10,000 cells" in shown.out
    assert "dsregress: interrupted; what was measured:" in shown.err


def test_a_section_that_does_not_exist_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["speed"])
    assert ended.value.code == 2
    assert (
        "no such section: speed (there are: results, sim, overhead, environments, first-answer, sweep, power)"
        in capsys.readouterr().err
    )
