"""A comparison for PyTorch's own infrastructure (github.com/pytorch/test-infra), each as the text of a file.

``benchmark_records`` are rows of the table ``benchmark.oss_ci_benchmark_v3`` as its action ``upload-benchmark-results``
reads them; the action adds the repository, the commit, the job and the machine. Source:
``clickhouse_db_schema/benchmark.oss_ci_benchmark_v3/schema.sql``.

``relay_results`` is the input ``test-results`` of its action ``cross-repo-ci-relay-callback``, by which a job in another
repository becomes a check run of a pull request of PyTorch. Source: ``torchci/lib/crcr/crcrUtils.ts``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec

from dsregress.compare.metrics import BY_NAME, STEP_TIME
from dsregress.compare.result_summary import ResultSummary
from dsregress.model import Passed
from dsregress.report.comparison.junit import junit_suites
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import plain
from dsregress.wording.names import outcome_text

Format = Callable[[ReportContext], str]


def benchmark_records(context: ReportContext) -> str:
    """Return a record for each metric of each cell, and one that says how the cell ended: 1 if it passed, else 0. The
    baseline's value is the target."""
    baseline = {
        cell.result.cell.workload: cell
        for cell in context.comparison.cells
        if cell.result.cell.stack.id == context.comparison.baseline
    }
    records = [
        record
        for cell in context.comparison.cells
        for record in _cell_records(context, cell, baseline.get(cell.result.cell.workload))
    ]
    return msgspec.json.format(msgspec.json.encode(records), indent=1).decode() + "\n"


def relay_results(context: ReportContext) -> str:
    """Return the number of cells that passed, failed and were skipped, as JUnit's cases are."""
    root = junit_suites(context)
    total, failed, skipped = (
        sum(int(root.get(name, "0")) for name in names) for names in (("tests",), ("failures", "errors"), ("skipped",))
    )
    counts = {"passed": total - failed - skipped, "failed": failed, "skipped": skipped, "total": total}
    return msgspec.json.encode(counts).decode() + "\n"


def _cell_records(
    context: ReportContext, cell: ResultSummary, baseline: ResultSummary | None
) -> Iterator[dict[str, object]]:
    own = cell.result.cell
    outcome = cell.result.outcome
    of_cell = {
        "benchmark": {
            "name": "dsregress",
            "mode": "training",
            "dtype": plain(str(own.parameters.get("dtype", ""))),
            "extra_info": {"device": own.device, "variant": plain(own.variant), "started_at": cell.result.started_at},
        },
        "model": {
            "name": plain(own.scenario),
            "type": "training job",
            "backend": plain(own.framework),
            "origins": ["dsregress"],
        },
        "dependencies": {
            plain(package): {"version": plain(version), "extra_info": {"stack": plain(context.name_of(own.stack.id))}}
            for package, version in own.environment_stack.versions.items()
        },
    }
    passed = isinstance(outcome, Passed)
    yield {**of_cell, "metric": _metric("passed", [float(passed)], 1.0, outcome=plain(outcome_text(outcome)))}
    wanted = {} if baseline is None else baseline.flat()
    for name, value in cell.flat().items() if passed else ():
        values = [*cell.round_s] if name == STEP_TIME.name else [value]
        if all(map(math.isfinite, values)):
            described = BY_NAME[name.rpartition(".")[2]]
            target = wanted.get(name, math.nan)
            words = {"unit": described.unit, "direction": described.direction.value}
            yield {**of_cell, "metric": _metric(name, values, target, **words)}


def _metric(name: str, values: list[float], target: float, **words: str) -> dict[str, object]:
    """Return a metric; without a target where there is none."""
    found: dict[str, object] = {"name": name, "benchmark_values": values, "extra_info": words}
    return found | ({"target_value": target} if math.isfinite(target) else {})


#: Name -> the function that formats a comparison.
FORMATS: dict[str, Format] = {"pytorch-benchmark": benchmark_records, "pytorch-relay": relay_results}
