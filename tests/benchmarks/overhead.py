"""The share of a regress that is not the frameworks' own work."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from dsregress.errors import EXIT_OK, EXIT_REGRESSION
from dsregress.model import Result
from dsregress.store import Store
from dsregress.system.scratch_folders import scratch_folder
from tests.benchmarks import watching
from tests.benchmarks.figures import BenchmarkFigure, measured

_WORKLOAD = ("--scenario", "llama_zero3_backward", "--variant", "gradient_checkpointing=*", "--device", "cpu")


def run(
    releases: Sequence[str], environment: dict[str, str], root: str, cores: int, repeats: int
) -> Iterator[BenchmarkFigure]:
    """Measure a whole ``regress --fresh`` of these DeepSpeed releases, whose environments already exist.

    The frameworks' own work is the time in which a framework was imported or a cell ran, as the results record it. Cells run
    one at a time; imports overlap, one on each core, so of each such group the longest counts.
    """
    section = f"A regress of {len(releases)} stacks on the cpu, environments warm, everything measured"
    walls, shares = [], []
    command = [sys.executable, "-m", "dsregress", "regress", "--deepspeed", ",".join(releases), "--fresh", *_WORKLOAD]
    for _ in range(repeats):
        with scratch_folder() as folder:
            cost = watching.run(command, {**environment, "DSREGRESS_RESULTS": str(folder)}, root)
            assert cost.exit_code in (EXIT_OK, EXIT_REGRESSION), f"regress ended with exit code {cost.exit_code}"
            results = Store(str(folder)).load().results
        walls.append(cost.wall_s)
        shares.append(100 * (1 - _own_work_s(results, cores) / cost.wall_s))
    yield measured(section, "time of the whole", walls, "s")
    yield measured(section, "share outside of the frameworks' own work", shares, "%")


def _own_work_s(results: Sequence[Result], cores: int) -> float:
    imports = {r.cell.stack.id: r.record.import_s for r in results if r.record is not None}
    longest = sorted(imports.values(), reverse=True)[::cores]
    return sum(result.duration_s for result in results) + sum(longest)
