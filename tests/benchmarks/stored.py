"""Comparing and reporting many stored results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from dsregress.errors import EXIT_REGRESSION
from dsregress.store import Store, encode
from dsregress.system.scratch_folders import scratch_folder
from tests.benchmarks import made_up, watching
from tests.benchmarks.figures import BenchmarkFigure, measured

FEW, MANY = 10_000, 100_000
_GIB = 1 << 30


def run(
    environment: dict[str, str], root: str, repeats: int, counts: tuple[int, int] = (FEW, MANY)
) -> Iterator[BenchmarkFigure]:
    """Yield the times of ``report`` over few and many results, and their growth with the number."""
    section = "Comparing and reporting stored results (harness report)"
    walls: dict[int, list[float]] = {}
    few, most = counts
    for count in counts:
        with scratch_folder() as folder:
            written, size = _write(str(folder), count)
            command = [sys.executable, "-m", "dsregress", "report", str(folder), "--baseline", made_up.baseline()]
            costs = [watching.run(command, environment, root) for _ in range(repeats)]
            if count == most:
                yield from _sites(section, written, [*command, "--html", str(folder / ".site")], environment, root)
        assert all(cost.exit_code == EXIT_REGRESSION for cost in costs), "the report failed"
        walls[count] = [cost.wall_s for cost in costs]
        many = count == most
        yield measured(section, f"{written:,} results: time", walls[count], "s", "under 15" if many else "")
        yield measured(section, f"{written:,} results: processor time", [cost.cpu_s for cost in costs], "s")
        peaks = [cost.peak_bytes / _GIB for cost in costs]
        yield measured(section, f"{written:,} results: peak memory", peaks, "GiB", "under 1" if many else "")
        yield measured(section, f"{written:,} results: size of each", [size / written / 1000], "kB", "under 10")
    growth = min(walls[most]) / min(walls[few])
    linear = f"{most / few:.0f} or less: linear"
    yield measured(section, f"time of {most:,} over time of {few:,}", [growth], "x", linear)


def _sites(
    section: str, written: int, command: list[str], environment: dict[str, str], root: str
) -> Iterator[BenchmarkFigure]:
    """Yield the times of a site of many results, made twice: the second time without changes."""
    first, again = (watching.run(command, environment, root) for _ in range(2))
    assert first.exit_code == again.exit_code == EXIT_REGRESSION, "the site failed"
    yield measured(section, f"{written:,} results: site", [first.wall_s], "s", "under 40")
    yield measured(section, f"{written:,} results: site, peak memory", [first.peak_bytes / _GIB], "GiB", "under 1")
    yield measured(section, f"{written:,} results: site once more", [again.wall_s], "s")


def _write(folder: str, count: int) -> tuple[int, int]:
    """Write results of real size into a folder, without waiting for the disk as a real run does; return their number and
    bytes."""
    store = Store(folder)
    written = size = 0
    known: set[tuple[str, ...]] = set()
    made: set[str] = set()
    for result, detail in made_up.results(count):
        hashes = tuple(result.detail_sha256.values())
        if hashes not in known:
            known.add(hashes)
            store.write_detail(detail)
        file = store.file_of(result)
        parent = os.path.dirname(file)
        if parent not in made:
            made.add(parent)
            os.makedirs(parent)
        data = encode(result)
        with open(file, "wb") as stream:
            stream.write(data)
        written, size = written + 1, size + len(data)
    size += sum(file.stat().st_size for file in (Path(folder) / "details").iterdir())
    return written, size
