"""The same findings in the formats of other tools, each as text. ``FORMATS`` has them all.

=========== =====================================================================================================
junit       JUnit XML: see `dsregress.report.comparison.junit`
pytest-benchmark  the JSON that ``pytest-benchmark compare`` reads: step times by rounds, exact metrics in ``extra_info``
pytorch-benchmark  records of PyTorch's benchmark database, and
pytorch-relay  what its cross-repository relay takes of a job: see `dsregress.report.comparison.pytorch_infrastructure`
summary     Markdown for a job summary: exact findings first, noisy ones folded
comment     Markdown for a pull request, of at most 15 lines
=========== =====================================================================================================
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dsregress.model import Passed
from dsregress.report.comparison import pytorch_infrastructure
from dsregress.report.comparison.comparison_comment import comparison_comment
from dsregress.report.comparison.job_summary import summary_markdown
from dsregress.report.comparison.junit import junit
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import plain


def pytest_benchmark(context: ReportContext) -> str:
    """Return one benchmark for each cell that was timed, grouped by workload, so that ``compare`` compares stacks."""
    benchmarks: list[dict[str, Any]] = []
    newest = ""
    for cell in context.comparison.cells:
        if not cell.round_s or not isinstance(cell.result.outcome, Passed):
            continue
        newest = max(newest, cell.result.started_at)
        name = f"{cell.result.cell.workload}[{context.name_of(cell.result.cell.stack.id)}]"
        benchmarks.append(
            {
                "group": plain(cell.result.cell.workload),
                "name": plain(name),
                "fullname": plain(f"dsregress::{name}"),
                "params": {"stack": plain(context.name_of(cell.result.cell.stack.id))},
                "param": plain(context.name_of(cell.result.cell.stack.id)),
                "extra_info": cell.worst(),
                "options": {"warmup": True, "timer": "perf_counter"},
                "stats": round_statistics(cell.round_s),
            }
        )
    content = {
        "machine_info": {},
        "commit_info": {"id": "", "time": newest, "dirty": False, "branch": ""},
        "benchmarks": benchmarks,
        "datetime": newest,
        "version": "5.0.0",
    }
    return _json(content)


def _json(content: object) -> str:
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


#: Name -> the function that formats a comparison.
FORMATS: dict[str, Callable[[ReportContext], str]] = {
    "junit": junit,
    "pytest-benchmark": pytest_benchmark,
    "summary": summary_markdown,
    "comment": comparison_comment,
} | pytorch_infrastructure.FORMATS


def round_statistics(round_s: Sequence[float]) -> dict[str, object]:
    """Return the statistics that pytest-benchmark stores of a benchmark's rounds, in seconds, under its names."""
    ordered = sorted(round_s)
    quarters = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else [ordered[0]] * 3
    spread = quarters[2] - quarters[0]
    low, high = quarters[0] - 1.5 * spread, quarters[2] + 1.5 * spread
    mean, deviation = statistics.fmean(ordered), statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    inside = [value for value in ordered if low <= value <= high]
    far = sum(abs(value - mean) > deviation for value in ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": deviation,
        "rounds": len(ordered),
        "median": quarters[1],
        "iqr": spread,
        "q1": quarters[0],
        "q3": quarters[2],
        "iqr_outliers": len(ordered) - len(inside),
        "stddev_outliers": far,
        "outliers": f"{far};{len(ordered) - len(inside)}",
        "ld15iqr": inside[0],
        "hd15iqr": inside[-1],
        "ops": 1 / mean if mean else 0.0,
        "total": sum(ordered),
        "data": list(round_s),
        "iterations": 1,
    }
